from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.local_times import local_item, local_text
from rmqctl.cli.output.render import render


@pytest.fixture(autouse=True)
def _nepal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "NPT-05:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("utc", "local"),
    [
        ("2026-11-28T01:21:30.938Z", "2026-11-28T07:06:30.938+05:45"),
        ("due 2026-11-28T20:00:00Z at the latest.", "due 2026-11-29T01:45:00+05:45 at the latest."),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),  # its local year does not exist
        ("no time", "no time"),
    ],
)
def test_a_time_is_shown_with_the_offset_of_the_local_zone(utc: str, local: str) -> None:
    assert local_text(utc) == local


def test_only_our_own_times_change() -> None:
    at = "2026-11-28T01:21:30.938Z"
    item = {"body": at, "storeTimestampIso": at, "runs": [{"startedIso": at, "key": at}], "candidatesIso": [at]}
    local = "2026-11-28T07:06:30.938+05:45"
    changed = {"storeTimestampIso": local, "runs": [{"startedIso": local, "key": at}], "candidatesIso": [local]}
    assert local_item(item) == {"body": at, **changed}


@pytest.mark.parametrize(("made", "is_local"), [("plain", True), ("json", False), ("csv", False)])
def test_documents_keep_utc(made: str, is_local: bool, capsys: pytest.CaptureFixture[str]) -> None:
    item: dict[str, Any] = {"at": 1, "atIso": "2026-11-28T01:21:30.938Z"}
    columns = (Column("AT", "atIso"),)
    listing = Listing(kind="Times", columns=columns, items=[item], name=str, notes=["At 2026-11-28T01:21:30.938Z."])
    render(listing, Display(format=made, with_local_times=is_local))
    shown = capsys.readouterr()
    assert ("07:06:30.938+05:45" in shown.out) == is_local
    assert ("At 2026-11-28T07:06:30.938+05:45." in shown.err) == is_local
