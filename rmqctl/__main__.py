"""The console script's entry point."""

from __future__ import annotations

import gc
import io
import os
import sys


def main() -> None:
    """Run the command line and exit with its exit code."""
    # The process lives for a fraction of a second: collecting garbage during imports costs 10 ms and frees nothing.
    gc.set_threshold(50_000)

    from rmqctl.cli.output.stdout import guarded

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a character gets an escape, as on stderr, instead of a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Python has no stdout or stderr when started with it closed (>&-).
    sys.stdout = guarded(sys.stdout)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115 -- open until the process ends

    if sys.argv[1:2] == ["complete-words"]:
        from rmqctl.cli.completion.words import main as complete

        os._exit(complete(sys.argv[2:]))
    from rmqctl.cli.app import run

    exit_code = run(sys.argv[1:])
    sys.stdout.flush()
    # All output is written and all connections are closed: a regular interpreter shutdown would only cost 10 ms more.
    os._exit(exit_code)


if __name__ == "__main__":
    main()
