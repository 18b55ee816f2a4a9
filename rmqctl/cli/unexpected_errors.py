"""Turns unexpected exceptions into errors with one sentence: the system's errors, and bugs of rmqctl."""

from __future__ import annotations

from rmqctl.cli.output.stdout import OutputError
from rmqctl.errors import BugError, RmqctlError, UsageError
from rmqctl.net.file_limit import OUT_OF_FILES, OUT_OF_FILES_HINT, out_of_files


def explained(error: BaseException) -> RmqctlError:
    """Return the error to report; for an exception group, that of its first exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, RmqctlError):
        return error
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, MemoryError):
        return RmqctlError("Out of memory.")
    if isinstance(error, RuntimeError) and "home directory" in str(error):
        # pathlib's and platformdirs': neither has an exception of its own for it.
        hint = "Set HOME, or RMQCTL_CONFIG, RMQCTL_STATE, RMQCTL_CACHE and RMQCTL_RUNTIME."
        return UsageError("The home directory is unknown.", hint=hint)
    return BugError(error)


def _of_system(error: OSError) -> RmqctlError:
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    if isinstance(error, OutputError):
        return RmqctlError(f"The output cannot be written: {reason}.")
    what = "a connection" if error.filename is None else str(error.filename)
    if error.errno in OUT_OF_FILES:
        return RmqctlError(f"Cannot open {what}: {out_of_files(error.errno)}.", hint=OUT_OF_FILES_HINT)
    if error.filename is not None:
        return RmqctlError(f"Cannot use {what}: {reason}.")
    return RmqctlError(f"The operating system refused a request: {reason}.")
