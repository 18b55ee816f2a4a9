"""rmqctl context show: one context of the configuration file, without its secrets."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

from rmqctl.cli.config.file import read_config
from rmqctl.cli.context.list import COLUMNS, to_item
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Item, Listing, Section
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import UsageError

HELP = """\b
Examples:
  rmqctl context show
  rmqctl context show prod
  rmqctl context show prod -o json | jq .items[0].namesrv

Without NAME, the current context is shown. File names include their folders. The content of files is not shown, nor
are a URL's password and query."""


def command(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Context to show.", show_default=False)] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(COLUMNS, invocation.display)
    config = read_config()
    name = name if name is not None else (config.current if config is not None else None)
    if config is None or name is None:
        raise UsageError("There is no current context.", hint="Choose one with rmqctl context use NAME.")
    listing = Listing(
        kind="ContextList",
        columns=COLUMNS,
        items=[to_item(config, config.context(name))],
        name=lambda item: str(item["context"]),
        sections=_sections,
    )
    return render(listing, invocation.display)


_FACTS = (
    ("Context", "context"),
    ("Description", "description"),
    ("Name servers", "namesrv"),
    ("Namespace", "namespace"),
    ("Credentials", "credentials"),
    ("Header", "header"),
    ("Timeout", "timeout"),
    ("Output", "output"),
    ("Brokers", "brokers"),
    ("Memory", "memory"),
    ("Proxies", "proxies"),
)


_MARKS = {"current": "isCurrent", "readonly": "readonly", "protected": "protected"}


def _plain(value: str | None) -> str:
    return "-" if value is None else value


def _sections(item: Item, is_wide: bool) -> list[Section]:
    facts = [(title, _plain(item[key])) for title, key in _FACTS if is_wide or item[key] is not None]
    marks = [word for word, key in _MARKS.items() if item[key]]
    if marks:
        facts.append(("Flags", ", ".join(marks)))
    if item["tls"] is not None:
        settings = [f"{key} {value}" for key, value in item["tls"].items() if value is not None]
        facts.append(("TLS", ", ".join(settings)))
    facts += [(f"Reach {broker}", f"at {address}") for broker, address in item["mapAddress"].items()]
    return [Section(facts=facts)]
