"""rmqctl context delete: delete a context from the configuration file."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated, Any

import typer

from rmqctl.cli.change.options import Yes
from rmqctl.cli.config.file import read_config
from rmqctl.cli.config.place import config_path
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.errors import NotFoundError
from rmqctl.text.names import closest

HELP = """\b
Examples:
  rmqctl context delete old
  rmqctl context delete old --yes

Asks for confirmation on a terminal; elsewhere it requires --yes. Files that the context names, such as its credentials,
are kept."""


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Context to delete.", show_default=False)],
    yes: Yes = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.change.consent import confirm
    from rmqctl.cli.config.edit import change_config

    invocation = Invocation(ctx, needs_cluster=False)
    config = read_config()
    if config is None or name not in config.contexts:
        raise NotFoundError("Context", name, suggestions=closest(name, config.contexts if config is not None else ()))
    plan = [f"Delete context {name} from {config_path()}."]
    if name == config.current:
        plan.append("It is the current context; afterwards no context is current.")
    confirm(plan, is_confirmed=yes, may_ask=invocation.may_ask)

    def change(document: Any) -> None:
        contexts = document.get("contexts", {})
        if name not in contexts:
            raise NotFoundError("Context", name)
        del contexts[name]
        if document.get("current-context") == name:
            del document["current-context"]

    change_config(change)
    if invocation.display.with_notes:
        to_stderr(printable(f"Deleted context {name}."))
    return 0
