"""The console script's entry point."""

from __future__ import annotations

import gc
import io
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    # A process of a fraction of a second: collecting while it imports costs 10 ms and finds nothing.
    gc.set_threshold(50_000)

    from rmqctl.cli.app import run

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that can't show a name's letters gets escapes, as it does on stderr, instead of a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
