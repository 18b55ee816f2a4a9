"""What the commands for a folder of tables share: the folder, which cluster is meant, each table in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.errors import NotFoundError, RmqctlError, UsageError
from rmqctl.model.failure import Failure

Item = dict[str, Any]
Folder = Annotated[str, typer.Argument(metavar="DIR", help="Folder or URI of the tables.", show_default=False)]
ClusterLabel = Annotated[
    str | None,
    typer.Option("--cluster-label", metavar="NAME", help="The cluster in the tables. [default: its name servers]"),
]


def known_name_servers(invocation: Invocation) -> str | None:
    """Return the name servers that label a cluster without --cluster-label, None when they are not given."""
    try:
        return invocation.name_servers()
    except UsageError:
        return None


def for_each_table(folder: str, work: Callable[[str], Item | None]) -> tuple[list[Item], list[Failure]]:
    """Return the result of `work` for the name of each table, None for one that does not exist, and what failed.

    Raises NotFoundError when no table exists, and the first error when the others do not exist or fail, too.
    """
    from rmqctl.pipeline.session import require_tables
    from rmqctl.pipeline.tables.schemas import SCHEMAS

    require_tables()
    items: list[Item] = []
    failures: list[Failure] = []
    for name in SCHEMAS:
        try:
            item = work(name)
        except RmqctlError as error:
            failures.append(Failure(None, f"table {name}", error))
        else:
            items += [] if item is None else [item]
    if not items and failures:
        raise failures[0].error
    if not items:
        raise NotFoundError("Table", folder).reworded(f"There are no tables in {folder}.")
    return items, failures
