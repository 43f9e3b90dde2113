"""The command `jasper`, which the package installs."""

import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import jasper

JASPER = pathlib.Path(sys.executable).with_name("jasper")


def run(*arguments, **options):
    return subprocess.run([JASPER, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def test_it_is_the_same_version():
    result = run("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"jasper {jasper.__version__}\n", "")


def test_it_writes_what_the_package_reads(vectors, tmp_path):
    np.save(tmp_path / "vectors.npy", vectors)
    built = run("build", "--base", "vectors.npy", "--metric", "l2", "--output", "vectors.jasper", "--device", "cpu", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    index = jasper.Index.open(tmp_path / "vectors.jasper")
    assert (index.search(vectors, 1).keys[:, 0] == np.arange(1000)).all()
    assert "1,000" in run("info", tmp_path / "vectors.jasper").stdout


def test_exit_codes_are_those_of_the_program(tmp_path):
    assert run("no-such-command").returncode == 2
    assert run("build", "--max-degree", "x").returncode == 2
    missing = run("info", tmp_path / "none")
    assert missing.returncode == 1 and missing.stderr.startswith("error: ") and missing.stdout == ""
    assert run("--help").stdout.startswith("Vector search on CPUs and GPUs")


def test_the_demonstration_reads_its_dictionary():
    result = run("demo", "xyzzy")
    assert result.returncode == 1 and "no word of `xyzzy` is in the dictionary" in result.stderr


def test_the_demonstration_says_how_to_get_its_dictionary():
    # As if the package were not installed.
    script = "import sys; sys.modules['jasper_demo'] = None; from jasper._command import main; sys.exit(main())"
    result = subprocess.run([sys.executable, "-c", script, "demo"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "pip install 'jasper-ann[demo]'" in result.stderr, result.stderr
    assert "pip install ./crates/jasper-python/demo" in result.stderr


def test_the_package_of_the_dictionary_has_its_license():
    import jasper_demo

    assert "Princeton University" in (jasper_demo.FOLDER / "LICENSE").read_text()


def heed_signals():
    """As in a terminal. A shell without job control has what it runs in the background ignore interrupts, and `nohup`
    has it ignore hang-ups."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_ctrl_c_ends_it(checkpoint, tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).random((300_000, 64), dtype=np.float32))
    options = ["--checkpoint=3600"] if checkpoint else []
    process = subprocess.Popen(
        [JASPER, "build", "--base", "vectors.npy", "--metric", "l2", "--output", "out.jasper", "--device", "cpu", *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_signals,
    )
    # Until the command has opened its input, an interrupt may still be one of the interpreter.
    opened = pathlib.Path(f"/proc/{process.pid}/fd")
    while all(file.resolve().name != "vectors.npy" for file in opened.iterdir()):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert not (tmp_path / "out.jasper").exists()
