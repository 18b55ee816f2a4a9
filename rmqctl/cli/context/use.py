"""rmqctl context use: set the current context."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated, Any

import typer

from rmqctl.cli.config.file import read_config
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.errors import NotFoundError
from rmqctl.text.names import closest

HELP = """\b
Examples:
  rmqctl context use prod

The current context is used unless -n, --context, RMQCTL_CONTEXT or NAMESRV_ADDR selects a cluster."""


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Context to use.", show_default=False)],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.config.edit import change_config

    invocation = Invocation(ctx, needs_cluster=False)
    config = read_config()
    if config is None:
        raise NotFoundError("Context", name)
    config.context(name)

    def change(document: Any) -> None:
        contexts = document.get("contexts", {})
        if name not in contexts:
            raise NotFoundError("Context", name, suggestions=closest(name, contexts))
        document["current-context"] = name

    change_config(change)
    if invocation.display.with_notes:
        to_stderr(printable(f"{name} is now the current context."))
    return 0
