"""Tables that 5.x returns in pages (GET_ALL_TOPIC_CONFIG, GET_ALL_SUBSCRIPTIONGROUP_CONFIG)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.java_json import loads
from rmqctl.sandbox.data_version import DataVersion
from rmqctl.sandbox.request import FailureError, Request

_T = TypeVar("_T")


def page(
    request: Request, table: Mapping[str, _T], version: DataVersion, *, seq_field: str, count_field: str,
    default_count: int, is_5_5: bool,
) -> dict[str, _T]:  # fmt: skip
    """Return the page of a table that a request asks for, or the whole table when it has no paging field.

    Pages belong to one version of the table: a request with another version gets the first page again. 5.5 treats
    an unreadable version as another version.
    """
    asked = request.number(seq_field, None), request.number(count_field, None), request.text("dataVersion", None)
    if asked == (None, None, None):
        return dict(table)
    first, count = request.number(seq_field), request.number(count_field, default_count)
    try:
        is_current = _is_current(request.text("dataVersion", ""), version)
    except RemoteProtocolError:
        if not is_5_5:
            raise
        is_current = False
    if not is_current:
        first = 0
    if first < 0 or count < 1:
        raise FailureError(f"java.lang.ArrayIndexOutOfBoundsException: Index {first + min(count, 0) - 1} out of bounds")
    return {name: table[name] for name in sorted(table)[first : first + count]}


def _is_current(text: str, version: DataVersion) -> bool:
    if not text:
        return False
    reported = loads(text.encode())
    return (reported.get("counter"), reported.get("timestamp")) == (version.counter, version.changed_at_ms)
