"""`clean-expired` of queues that were moved already, by it or by a reset, and whose client has not followed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.changes.clean_expired import apply
from rmqctl.errors import NotAskedError
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import document, stored

from .stuck_member import CLEAN, stuck_member

Captured = pytest.CaptureFixture[str]
NOW = ("--yes", "--wait-stable", "0")
FIRST = [
    pytest.param((*CLEAN, *NOW), 9, id="cleaned"),
    # Past what its client has in flight, so that the target of a cleaning would be before it.
    pytest.param(("offset", "reset", "G", "--topic", "T", "--to-latest", *NOW), 7, id="reset"),
]


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Iterator[ThreadedSandbox]:
    """The client does not pull again: what is stored stays the target of the reset."""
    with stuck_member(monkeypatch, capsys, brokers=1) as running:
        yield running


def copies(sandbox: ThreadedSandbox) -> int:
    return sandbox.call(
        lambda inner: sum(
            inner.brokers["broker-a"].store.max_offset("SCHEDULE_TOPIC_XXXX", queue_id) for queue_id in range(18)
        )
    )


@pytest.mark.parametrize(("first", "code"), FIRST)
def test_it_is_named_and_not_moved_again(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, first: tuple[str, ...], code: int
) -> None:
    saved = tmp_path / "plan.json"
    assert call(capsys, *CLEAN, "--plan", str(saved)).code == 10
    assert call(capsys, *first).code == 9
    before = (stored(sandbox), copies(sandbox))
    assert min(before[0].values()) > 6

    for words in (("--dry-run",), ("--yes",), ("--plan", str(tmp_path / "second.json"))):
        done = call(capsys, *CLEAN, *words)
        assert done.code not in (0, 9), words
        assert "c1" in done.err

    watched = call(capsys, *CLEAN, *NOW, "--watch", "--every", "1ms", "--rounds", "2", "-o", "jsonl")
    for line in map(json.loads, watched.out.splitlines()):
        assert (line["stuckCount"], line["freedCount"], line["pendingCount"]) == (2, 0, 2)
        assert "c1" in line["error"]
    assert watched.code == 8

    applied = call(capsys, "apply", str(saved), *NOW, "-o", "json")
    assert applied.code == code, applied.err
    if code == 9:
        results = {(each["result"], each["isPending"]) for each in document(applied)["items"]}
        assert results == {("UNKNOWN", True)}
    assert (stored(sandbox), copies(sandbox)) == before


def test_rounds_count_only_what_they_sent_back(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    """The first run breaks off after the copies are stored: the round finds them, and moves the queues."""
    sandbox.faults.answer(Q.INVOKE_BROKER_TO_RESET_OFFSET, R.SYSTEM_ERROR, count=None)
    assert call(capsys, *CLEAN, *NOW).code not in (0, 9)
    sandbox.faults.clear()
    before = copies(sandbox)
    assert before > 0
    watched = call(capsys, *CLEAN, *NOW, "--watch", "--every", "1ms", "--rounds", "1", "-o", "jsonl")
    (line,) = map(json.loads, watched.out.splitlines())
    assert (line["returnedCount"], line["pendingCount"], copies(sandbox)) == (0, 2, before), watched.err


@pytest.mark.parametrize("unasked", ["the client", "its broker"])
def test_what_could_not_be_checked_is_not_out_of_date(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unasked: str
) -> None:
    """The command's own time is over before the client is asked, or its broker whether it is connected."""
    saved = tmp_path / "plan.json"
    assert call(capsys, *CLEAN, "--plan", str(saved)).code == 10
    fetch, error = apply.fetch_running_infos, NotAskedError("127.0.0.1:1", 3.0)

    async def too_late(*arguments: Any, **options: Any) -> Any:
        infos = await fetch(*arguments, **options)
        return replace(infos, ok={}, failed=dict.fromkeys(infos.ok, error))

    async def unlisted(*_: Any) -> Any:
        raise error

    if unasked == "the client":
        monkeypatch.setattr(apply, "fetch_running_infos", too_late)
    else:
        monkeypatch.setattr(apply, "fetch_placed_connections", unlisted)
    applied = call(capsys, "apply", str(saved), *NOW, "-o", "json")
    assert (applied.code, json.loads(applied.err)["name"]) == (6, "NOT_ASKED")
    assert copies(sandbox) == 0
