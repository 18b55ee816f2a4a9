"""The clients of `clean-expired` in JSON and in words: which of their threads are in the listener."""

from __future__ import annotations

import pytest

from rmqctl.cli.clean_expired.stuck_listing import to_listing
from tests.observe.test_stuck_scan import STACK, cluster, member, scan

_UNNAMED = STACK.replace("_G_1", "_1")


@pytest.mark.parametrize(
    ("dump", "busy_count", "reasons"),
    [
        (STACK, 1, {}),
        (f"{STACK}\n{_UNNAMED}", None, {"busyThreadCount": "GROUP_UNKNOWN"}),
        ("goroutine 1 [running]:\n", None, {"busyThreadCount": "NOT_REPORTED", "threads": "NOT_REPORTED"}),
    ],
)
def test_a_count_of_threads_that_is_unknown_has_a_reason(
    dump: str, busy_count: int | None, reasons: dict[str, str]
) -> None:
    listing = to_listing(scan(cluster(member(quiet_ms=120_000, dump=dump)), older_than_ms=5_000), None)
    (client,) = listing.extra["clients"]
    assert (client["busyThreadCount"], client["reasons"]) == (busy_count, reasons)
    assert any("another one" in note for note in listing.notes) == ("GROUP_UNKNOWN" in reasons.values())
