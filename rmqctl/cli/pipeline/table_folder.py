"""What the commands for a folder of tables share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.failure import Failure

Item = dict[str, Any]


def for_each_table(folder: str, work: Callable[[str], Item | None]) -> tuple[list[Item], list[Failure]]:
    """Return the result of `work` for the name of each table, None for one that does not exist, and what failed.

    Raises NotFoundError when there is no table, and the error when the first table's is all that there is.
    """
    from rmqctl.pipeline.session import require_modules
    from rmqctl.pipeline.tables.schemas import SCHEMAS

    require_modules({"deltalake": "deltalake", "pyarrow": "PyArrow"})
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
