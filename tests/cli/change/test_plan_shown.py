"""What a plan says of itself: on the screen before anybody is asked, in its file, and in the history afterwards."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes.documents.encode import sum_of
from rmqctl.cli.change.sentences import headings
from rmqctl.model.plan import Author, Operation, Plan, Route
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import document, join, seeded, stored
from tests.schemas import check_document

Captured = pytest.CaptureFixture[str]
BACK = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2")
_SINCE_NOW = (
    "timeMs",
    "timeIso",
    "nameServers",
    "user",
    "host",
    "context",
    "filters",
    "configuredAt",
    "takesOffsets",
    "maySkip",
    "errors",
)
_BOUNDS = ("reconsumedMin", "reconsumedMax", "skippedMin", "skippedMax")


# Before the table

_NOW_MS = 1_795_238_400_000  # 2026-11-21T05:20:00Z


def _plan(**changes: Any) -> Plan:
    known: dict[str, Any] = {
        "id": "p", "operation": Operation.OFFSET_RESET, "created_at_ms": _NOW_MS - 3 * 86_400_000,
        "cluster": "C@ns:9876", "brokers": {"broker-a": "a:1"}, "group": "G",
        "route": Route.BROKER_WRITE, "asked": "--by-duration 2h",
    }  # fmt: skip
    return Plan(**known | changes)


@pytest.fixture
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("shanghai")
def test_the_first_lines_tell_what_where_when_and_by_whom() -> None:
    plan = _plan(author=Author("ann", "host1", "prod"), time_ms=_NOW_MS - 7_980_000, reason="bad data")
    assert list(headings(plan, _NOW_MS, is_saved=True)) == [
        "offset reset of group G in C at ns:9876 (context prod): --by-duration 2h",
        "Target time: 2026-11-21T03:07:00.000Z (2026-11-21 11:07:00 local), 2h13m ago.",
        "Plan p was made 3d0h ago by ann on host1, 2026-11-18T05:20:00.000Z.",
        "Reason: bad data",
    ]


def test_a_plan_of_an_older_release_tells_less() -> None:
    assert list(headings(_plan(), _NOW_MS, is_saved=True))[1:] == [
        "Plan p was made 3d0h ago, 2026-11-18T05:20:00.000Z."
    ]
    ahead = list(headings(_plan(time_ms=_NOW_MS + 60_000), _NOW_MS))
    assert ahead[1].endswith("in 1m00s.")


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (Operation.GROUP_CREATE, "undo of group delete"),
        (Operation.GROUP_DELETE, "undo of group create"),
        (Operation.GROUP_UPDATE, "undo of group update"),
    ],
)
def test_the_way_back_of_a_group_is_named_after_what_it_undoes(operation: Operation, name: str) -> None:
    (line,) = headings(_plan(operation=operation, asked="undo 2026"), _NOW_MS)
    assert line == f"{name} of group G in C at ns:9876: undo 2026"
    (line,) = headings(_plan(operation=operation, asked=""), _NOW_MS)
    assert line.startswith(f"{operation} of group G")


def test_a_plan_is_named_before_anybody_is_asked(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    words = ("offset", "reset", "G", "--topic", "T", "--by-duration", "1h")
    result = call(capsys, *words, "--dry-run")
    assert result.code == 0
    first, second, *_ = result.err.splitlines()
    assert re.fullmatch(
        r"offset reset of group G in DefaultCluster at \S+, topic T: --by-duration 1h \(since 20\S+Z\)", first
    )
    assert re.fullmatch(r"Target time: 20\S+Z( \(.* local\))?, 1h0\dm ago\.", second) or "59m" in second
    # Not even -q takes that away where it is asked about.
    asked = call(capsys, *words, "-q")
    assert asked.code == 2
    assert "offset reset of group G in DefaultCluster" in asked.err
    assert "offset reset of" not in call(capsys, *words, "--dry-run", "-q").err
    assert "offset reset of" not in call(capsys, *words, "-q", "-o", "json").err


def test_a_group_change_is_named_too(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, "group", "update", "G", "--retries", "3", "--dry-run")
    assert result.err.splitlines()[0].startswith("group update of group G in DefaultCluster at ")


# As a file


def _saved(capsys: Captured, path: Path, *words: str) -> dict[str, Any]:
    result = call(capsys, *words, "--plan", str(path))
    assert result.code == 0, result.err
    plan: dict[str, Any] = json.loads(path.read_text())
    return plan


@pytest.mark.parametrize(
    "words",
    [
        BACK,
        ("offset", "skip", "G", "--with-retry"),
        ("offset", "delete", "G", "--topic", "T"),
        ("group", "create", "new"),
        ("group", "update", "G", "--retries", "3"),
        ("group", "delete", "G", "--with-offsets"),
    ],
)
def test_every_saved_plan_is_as_its_schema_says(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, words: tuple[str, ...]
) -> None:
    plan = _saved(capsys, tmp_path / "p.json", *words)
    check_document(plan)
    assert plan["errors"] == []
    assert plan["sha256"] == sum_of(plan)
    assert plan["user"]
    assert plan["host"]
    shown = call(capsys, "plan", "show", str(tmp_path / "p.json"))
    assert " was made " in shown.err


def test_a_plan_of_an_older_release_is_still_shown_and_applied(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    plan = _saved(capsys, path, *BACK)
    for key in _SINCE_NOW:
        plan.pop(key, None)
    for item in plan["items"]:
        for key in _BOUNDS:
            del item[key]
    path.write_text(json.dumps({**plan, "sha256": sum_of(plan)}))
    shown = call(capsys, "plan", "show", str(path))
    assert shown.code == 0
    assert shown.out.splitlines()[1].split()[7:10] == ["-4", "4", "0"]
    assert "8 messages would be redelivered, 0 skipped." in shown.err
    assert call(capsys, "apply", str(path), "--yes").code == 0
    assert stored(sandbox) == {0: 2, 1: 2}


def test_apply_shows_the_numbers_of_today(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    join(sandbox)
    _saved(capsys, path, *BACK)

    async def grow(inner: Any) -> None:
        from tests.sandbox.peer import Peer
        from tests.sandbox.progress import send

        peer = await Peer.of_broker(inner, "broker-a")
        await send(peer, "T", 0, count=5)
        await peer.aclose()

    sandbox.run(grow(sandbox.sandbox))
    for words in (("apply", str(path), "--dry-run"), ("apply", str(path), "--yes", "--wait-stable", "0")):
        result = call(capsys, *words)
        assert [line.split()[4] for line in result.out.splitlines()[1:3]] == ["15", "10"]
        assert " was made " in result.err
    assert [line.split()[4] for line in call(capsys, "plan", "show", str(path)).out.splitlines()[1:3]] == ["10", "10"]


def test_what_no_longer_holds_is_said_before_anybody_is_asked(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path, *BACK)
    join(sandbox)
    result = call(capsys, "apply", str(path))
    assert (result.code, result.out) == (7, "")
    assert "The group was EMPTY and is ONLINE." in result.err


# Where nothing changes


@pytest.mark.parametrize(
    "words", [("offset", "skip", "G"), ("offset", "reset", "G", "--topic", "T", "--to-offset", "10")]
)
@pytest.mark.parametrize("yes", [(), ("--yes",)])
def test_a_plan_that_changes_nothing_needs_no_yes_and_leaves_no_trace(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], yes: tuple[str, ...]
) -> None:
    with seeded(stored=10) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        result = call(capsys, *words, *yes)
        assert result.code == 0
        assert "Nothing would be changed." in result.err
        assert result.out.count("already at the target") == 2
        shown = call(capsys, *words, *yes, "-o", "json")
        assert (shown.code, document(shown)["kind"]) == (0, "Plan")
        assert document(call(capsys, "offset", "history", "-o", "json"))["items"] == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("offset", "reset", "G*", "--topic", "T", "--to-latest"), "GROUP G*: a change accepts no wildcards."),
        (("offset", "skip", "?"), "GROUP ?: a change accepts no wildcards."),
        (("offset", "delete", "*", "--topic", "T"), "GROUP *: a change accepts no wildcards."),
        (("offset", "clone", "G", "H*"), "GROUP H*: a change accepts no wildcards."),
        (("group", "update", "G*", "--retries", "3"), "GROUP G*: a change accepts no wildcards."),
        (("group", "delete", "G*"), "GROUP G*: a change accepts no wildcards."),
        (("offset", "skip", "G", "--topic", "T*"), "--topic T*: a change accepts no wildcards."),
        (("offset", "reset", "G", "--topic", "T", "--by-duration", "2"), "'2' has no unit: use 2h, 2m or 2s"),
        (("offset", "reset", "G", "--topic", "T", "--to-latest", "--wait-stable", "5"), "use 5h, 5m or 5s"),
        (("offset", "skip", "G", "--timeout", "5"), "--timeout: '5' has no unit: use 5h, 5m or 5s"),
    ],
)
def test_what_is_refused_before_the_cluster_is_asked(
    sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...], sentence: str
) -> None:
    result = call(capsys, *words, "--yes")
    assert result.code == 2
    assert sentence in result.err
    assert stored(sandbox) == {0: 6, 1: 6}


# Afterwards


def test_the_history_tells_when_of_which_topic_and_what_was_undone(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    done = document(call(capsys, *BACK, "--yes", "-o", "json"))
    deleted = document(call(capsys, "group", "delete", "G", "--yes", "-o", "json"))
    assert call(capsys, "offset", "undo", deleted["id"], "--yes").code == 0
    shown = call(capsys, "offset", "history")
    heading, *rows = shown.out.splitlines()
    assert heading.split()[:5] == ["ID", "WHEN", "WHAT", "GROUP", "TOPIC"]
    assert [re.split(r"  +", row)[2:5] for row in rows] == [
        ["undo of group delete", "G", "-"],
        ["group delete", "G", "-"],
        ["offset reset", "G", "T"],
    ]
    assert re.fullmatch(r"\d+m?\d*s ago|\d+ms ago", re.split(r"  +", rows[2])[1])
    assert done["startedAtIso"] in call(capsys, "offset", "history", "-o", "wide").out
    items = document(call(capsys, "offset", "history", "-o", "json"))["items"]
    assert [item["topics"] for item in items] == [[], [], ["T"]]


def test_the_history_of_several_clusters_names_them(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(capsys, *BACK, "--yes").code == 0
    assert "CLUSTER" not in call(capsys, "offset", "history").out
    with seeded() as other:
        assert call(capsys, *BACK, "--yes", "-n", other.addr).code == 0
    assert "CLUSTER" in call(capsys, "offset", "history").out.splitlines()[0]
