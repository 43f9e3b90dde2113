"""The command `jasper`, as the package installs it."""

import signal
import sys

from jasper import _native


def main() -> int:
    """Runs the command with the arguments of the process, and returns its exit code."""
    # Ctrl-C ends the process, or is handled by the command; Python would wait for the command to return.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native._command(sys.argv, _dictionary())


def _dictionary() -> str | None:
    """The folder of the demonstration's dictionary, if the extra demo is installed."""
    try:
        import jasper_demo
    except ImportError:
        return None
    return str(jasper_demo.FOLDER)
