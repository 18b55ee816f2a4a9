"""The entry point: runs a command, reports its error once, returns the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from typer._click.exceptions import ClickException
from typer._click.exceptions import UsageError as ClickUsageError

from rmqctl.errors import NotFoundError, RmqctlError, UsageError

from .globals import RunState, global_params, version_param
from .lazy import LazyGroup
from .output.text import drop_rest, printable, to_stderr
from .registry import COMMANDS, ERROR_CODES, GROUPS

_HELP = """Inspect and repair Apache RocketMQ consumer groups.

\b
Examples:
  rmqctl -n 10.0.0.5:9876 group list
  rmqctl -n 10.0.0.5:9876 offset show my-group
  rmqctl -n 10.0.0.5:9876 offset show my-group -o json | jq .summary.lag
  rmqctl explain 206
"""


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        return _run_root(argv)
    except (BrokenPipeError, SystemExit):
        # The reader closed the pipe (| head). Typer turns that into SystemExit, and raises it for nothing else.
        drop_rest(sys.stdout)
        return 0


def _run_root(argv: Sequence[str]) -> int:
    if argv and argv[0] in ("help", "version"):
        argv = [*argv[1:], f"--{argv[0]}"]
    state = RunState(as_json=_wants_json(argv), error_code=_error_code(argv))
    try:
        result = root().main(args=list(argv), prog_name="rmqctl", standalone_mode=False, obj=state)
        sys.stdout.flush()
        return _whole_code(result if isinstance(result, int) else 0, state)
    except ClickException as error:
        return _report(_usage_error(error), argv, state)
    except RmqctlError as error:
        return _report(error, argv, state)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 -- the last place to turn it into a sentence
        from .output.stdout import OutputError
        from .unexpected_errors import explained

        if isinstance(error, OutputError):
            drop_rest(sys.stdout)
        return _report(explained(error), argv, state)


def _whole_code(code: int, state: RunState) -> int:
    """Return the exit code of a command. 0 means that nothing it showed was partial, whatever the command returns."""
    if code != 0 or state.findings is None or not state.findings.partial_codes:
        return code
    return min(state.findings.partial_codes) if state.error_code is None else state.error_code


def root() -> LazyGroup:
    """Return the root of all commands."""
    return LazyGroup(
        "",
        name="rmqctl",
        help=_HELP,
        params=[version_param(), *global_params()],
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _wants_json(argv: Sequence[str]) -> bool:
    """Return whether JSON output was requested, even on a command line that cannot be parsed."""
    pairs = zip(argv, [*argv, ""][1:], strict=True)
    return any(
        (word in ("-o", "--output") and value in ("json", "jsonl"))
        or word in ("-ojson", "-ojsonl", "--output=json", "--output=jsonl")
        for word, value in pairs
    )


def _error_code(argv: Sequence[str]) -> int | None:
    """Return the exit code of errors until the command is resolved, for example of an unknown global option."""
    words = (word for word in argv if word in COMMANDS or word in GROUPS)
    return ERROR_CODES.get(next(words, ""))


def _usage_error(error: ClickException) -> UsageError:
    sentence = error.format_message()
    sentence = sentence if sentence.endswith((".", "?")) else f"{sentence}."
    ctx = error.ctx if isinstance(error, ClickUsageError) else None
    return UsageError(sentence, hint=f"See {ctx.command_path} --help." if ctx is not None else None)


def _report(error: RmqctlError, argv: Sequence[str], state: RunState) -> int:
    """Write the error that is being handled to stderr, as a sentence and a hint or as JSON; return its exit code."""
    if isinstance(error, NotFoundError) and state.findings is not None and state.findings.failures:
        from rmqctl.client.duplicates import with_duplicates

        error = with_duplicates(state.findings.failures, error)
    exit_code = error.exit_code if state.error_code is None else state.error_code
    if "--debug" in argv:
        import traceback

        for line in traceback.format_exc().splitlines():
            to_stderr(printable(line))
    from .output.error_lines import write_error

    write_error(error, exit_code, as_json=state.as_json)
    return exit_code
