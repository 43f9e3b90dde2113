"""Exceptions. Each has the message of the library, which names the parameter, its value and its bounds."""


class Error(Exception):
    """Any error of Jasper, except those of the operating system, which are OSError."""


class ParameterError(Error, ValueError):
    """An argument has a wrong value, shape or type."""


class UnknownKeyError(Error, KeyError):
    """A key is not in the index."""

    # KeyError shows the repr of its message.
    __str__ = Exception.__str__


class DuplicateKeyError(Error, ValueError):
    """A key is in the index already, or is given twice."""


class FormatError(Error, ValueError):
    """A file is not an index, is damaged, or is from a later version."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory on the host or the device."""


class DeviceError(Error, RuntimeError):
    """A device does not exist, cannot be used, or failed."""


class Cancelled(Error):
    """A progress callback returned False."""
