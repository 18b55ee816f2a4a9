"""rmqctl schema: the JSON Schemas of the output of the other commands. Needs no cluster."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
import json
from typing import Annotated

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.text.names import closest

HELP = """\b
Examples:
  rmqctl schema                             # every kind of document
  rmqctl schema OffsetList > offsets.schema.json
  rmqctl schema OffsetList --item           # one line of -o jsonl
  rmqctl schema OffsetList --item | jq '.properties | keys'

The schemas are self-contained JSON Schema, draft 2020-12. They describe whole documents, as printed by -o json and
-o yaml. With --columns, an item has only the chosen keys and "reasons", so "required" does not apply to it."""


def command(
    ctx: typer.Context,
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help='A document\'s "kind".', show_default=False)
    ] = None,
    item: Annotated[
        bool, typer.Option("--item", help="Show the schema of one item, not of the whole document.")
    ] = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx, needs_cluster=False)
    if kind is not None:
        typer.echo(json.dumps(_schema(kind, is_item=item), indent=2, ensure_ascii=False))
        return 0
    if item:
        raise UsageError("--item requires a KIND.", hint="List the kinds with rmqctl schema.")
    choose_columns(_COLUMNS, invocation.display)
    return render(_to_listing(), invocation.display)


def _schema(kind: str, *, is_item: bool) -> object:
    from rmqctl.cli.output.schemas import document_schema, item_schema, kinds

    known = {name.casefold(): name for name in kinds()}
    name = known.get(kind.casefold())
    if name is None:
        raise NotFoundError("Kind", kind, suggestions=closest(kind, known.values()))
    schema = item_schema(name) if is_item else document_schema(name)
    if schema is None:
        raise UsageError(f"{name} has no items.")
    return schema


def _to_listing() -> Listing:
    from rmqctl.cli.output.schemas import document_schema, kinds

    return Listing(
        kind="SchemaList",
        columns=_COLUMNS,
        items=[{"kind": kind, "title": document_schema(kind)["title"]} for kind in kinds()],
        name=lambda item: str(item["kind"]),
    )


_COLUMNS = (Column("KIND", "kind"), Column("TITLE", "title"))
