"""The outbox: every notification reaches every target once and in order, however often a target fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from rmqctl.errors import RmqctlError
from rmqctl.observe.fleet_activity import GroupKey
from rmqctl.rules.health import Health
from rmqctl.watch.incident_store import IncidentStore, open_store
from rmqctl.watch.incidents import OpenIncident
from rmqctl.watch.notifiers import NotifyTarget
from rmqctl.watch.outbox import Outbox

_INCIDENT = OpenIncident(GroupKey("C", "pay"), 5, Health.STOP, 5, frozenset({"a"}))


class _Pager:
    """A target that raises errors, one after the other, and then keeps what it gets."""

    def __init__(self, *errors: Exception, name: str = "pager") -> None:
        self.errors = list(errors)
        self.texts: list[str] = []
        self.attempted = Event()
        self.target = NotifyTarget(name, self.notify, "secret-token", f"id of {name}")

    def notify(self, alerts: Mapping[str, Any], target: str) -> None:
        self.attempted.set()
        if self.errors:
            raise self.errors.pop(0)
        self.texts.append(alerts["text"])


class _Reports(list[str]):
    """The lines of an outbox; `delivered` is set by one that reports a delivery."""

    def __init__(self) -> None:
        super().__init__()
        self.delivered = Event()

    def add(self, line: str) -> None:
        self.append(line)
        if "delivered again" in line:
            self.delivered.set()


def _store(reports: list[str]) -> IncidentStore:
    return open_store(["127.0.0.1:9876"], ["pay"], "WARN", reports.append)


def _send(outbox: Outbox, *texts: str) -> None:
    for text in texts:
        outbox.send([_INCIDENT], {"text": text})


def _stay(event: Event, _: float) -> None:
    """A pause that only the end of the watch ends."""
    event.wait(600)


_DOWN, _BUSY = RmqctlError("x: it answered 503."), RmqctlError("x: it answered 429.")


def _failing(reason: str) -> str:
    return f"pager: {reason} Not delivered yet; rmqctl tries again until it is."


@pytest.mark.parametrize(
    ("errors", "pauses", "reasons"),
    [
        ([], [], []),
        ([_DOWN], [1], [_DOWN.sentence]),
        ([_DOWN] * 6, [1, 5, 20, 60, 60, 60], [_DOWN.sentence]),
        ([_DOWN, _BUSY, ValueError("secret-token")], [1, 5, 20], [_DOWN.sentence, _BUSY.sentence, "ValueError."]),
    ],
)
def test_a_failing_target_gets_everything_once_and_in_order(
    errors: list[Exception], pauses: list[float], reasons: list[str]
) -> None:
    pager, sound = _Pager(*errors), _Pager(name="sound")
    reports = _Reports()
    paused: list[float] = []
    may_go_on = Event()

    def pause(_: Event, seconds: float) -> None:
        may_go_on.wait(600)
        paused.append(seconds)

    outbox = Outbox(
        [pager.target, sound.target],
        IncidentStore(reports.add),
        reports.add,
        pause=pause,
        now_s=lambda: 60.0 * len(paused),
    )
    _send(outbox, *"abc")
    may_go_on.set()
    assert not errors or reports.delivered.wait(600)
    assert outbox.close(600)
    assert (pager.texts, sound.texts) == (["a", "b", "c"], ["a", "b", "c"])
    assert paused == pauses
    recovery = f"pager: delivered again after {len(errors)}m00s; 3 notifications had to wait."
    assert reports == [*map(_failing, reasons), *([recovery] if errors else [])]


def test_the_end_of_the_watch_ends_a_pause() -> None:
    pager, reports = _Pager(_DOWN), _Reports()
    outbox = Outbox([pager.target], IncidentStore(reports.add), reports.add, pause=_stay)
    _send(outbox, "a")
    assert pager.attempted.wait(600)
    assert outbox.close(600)
    assert pager.texts == ["a"]


def test_what_is_not_delivered_in_the_end_is_delivered_first_at_the_next_start() -> None:
    reports = _Reports()
    pager = _Pager(*[_DOWN] * 9)
    outbox = Outbox([pager.target], _store(reports), reports.add, pause=_stay)
    _send(outbox, "a", "b")
    assert pager.attempted.wait(600)
    assert not outbox.close(0.0)
    assert reports[-1] == "2 notifications not delivered; the next start of this watch tries again."
    pager.errors.clear()
    outbox = Outbox([pager.target], _store(reports), reports.add, pause=_stay)
    assert outbox.incidents == [_INCIDENT]
    _send(outbox, "c")
    assert outbox.close(600)
    assert pager.texts == ["a", "b", "c"]
    assert outbox.failed_count == 0
    outbox = Outbox([pager.target], _store(reports), reports.add)
    assert outbox.waiting_count == 0
    assert outbox.close(600)


def test_notifications_for_a_target_that_is_no_longer_given_are_dropped() -> None:
    reports = _Reports()
    pager, other = _Pager(*[_DOWN] * 9), _Pager(name="other")
    outbox = Outbox([pager.target, other.target], _store(reports), reports.add, pause=_stay)
    _send(outbox, "a", "b")
    outbox.close(0.0)
    outbox = Outbox([other.target], _store(reports), reports.add)
    assert outbox.close(600)
    assert reports[-1] == "2 notifications for targets that --notify no longer names: dropped."


def test_of_too_many_the_oldest_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("incident_store", "outbox"):
        monkeypatch.setattr(f"rmqctl.watch.{module}.MOST_WAITING", 3)
    reports = _Reports()
    pager = _Pager(_DOWN)
    outbox = Outbox([pager.target], IncidentStore(reports.add), reports.add, pause=_stay)
    _send(outbox, "a")
    assert pager.attempted.wait(600)
    _send(outbox, *"bcde")
    assert (outbox.failed_count, outbox.waiting_count) == (2, 3)
    assert not outbox.close(600)
    assert pager.texts == ["c", "d", "e"]
    assert [line for line in reports if "Dropped" in line] == [
        f"3 notifications wait already. Dropped the oldest: {text}" for text in "ab"
    ]


def test_a_target_that_is_given_twice_gets_everything_once() -> None:
    pager, reports = _Pager(), _Reports()
    outbox = Outbox([pager.target] * 2, IncidentStore(reports.add), reports.add)
    _send(outbox, "a")
    assert outbox.close(600)
    assert pager.texts == ["a"]


def _files(pattern: str) -> list[Path]:
    from rmqctl.state.folder import state_folder

    return sorted(state_folder().glob(pattern))


def test_the_file_has_no_secret_and_is_for_this_user_alone() -> None:
    reports = _Reports()
    pager = _Pager(*[_DOWN] * 9)
    outbox = Outbox([pager.target], _store(reports), reports.add, pause=_stay)
    _send(outbox, "a")
    outbox.close(0.0)
    (path,) = _files("watch-*.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" not in path.read_text()
    assert json.loads(path.read_text())["waiting"] == {"id of pager": [{"text": "a"}]}


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text("{"),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_text('{"incidents": [1]}'),
        lambda path: path.write_text('{"waiting": {"id": "a"}}'),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.mkdir(),
    ],
)
def test_a_damaged_file_is_kept_aside(damage: Callable[[Path], object]) -> None:
    reports = _Reports()
    store = _store(reports)
    store.close()
    (lock,) = _files("watch-*.lock")
    path = lock.with_suffix(".json")
    damage(path)
    store = _store(reports)
    assert store.incidents == []
    assert store.is_kept
    store.close()
    (aside,) = _files("watch-*.damaged")
    (line,) = reports
    assert line == f"{path} is damaged. It is now {aside.name}, and rmqctl notifies of open incidents again."


def test_a_second_process_with_the_same_groups_stores_nothing() -> None:
    reports = _Reports()
    first = _store(reports)
    second = _store(reports)
    assert (first.is_kept, second.is_kept) == (True, False)
    (line,) = reports
    assert line.startswith("Open incidents and notifications are stored by process ")
    pager = _Pager(*[_DOWN] * 9)
    outbox = Outbox([pager.target], second, reports.add, pause=_stay)
    _send(outbox, "a")
    assert not outbox.close(0.0)
    assert reports[-1] == "1 notification not delivered, and will be lost."
    first.close()
    third = _store(reports)
    assert (third.is_kept, third.waiting_count) == (True, 0)
    third.close()


@pytest.mark.parametrize(
    ("name_servers", "groups", "notify_at", "is_same"),
    [
        (["localhost:9876"], ["pay"], "WARN", True),
        (["[::1]:9876"], ["pay"], "WARN", True),
        (["LOCALHOST:9876"], ["pay"], "WARN", True),
        (["127.0.0.1:9877"], ["pay"], "WARN", False),
        (["127.0.0.1:9876"], ["pay", "ship"], "WARN", False),
        (["127.0.0.1:9876"], ["pay"], "STOP", False),
        (["http://list/nsaddr"], ["pay"], "WARN", False),
    ],
)
def test_the_file_is_that_of_name_servers_groups_and_health(
    name_servers: list[str], groups: list[str], notify_at: str, is_same: bool
) -> None:
    _store([]).close()
    open_store(name_servers, groups, notify_at, [].append).close()
    assert len(_files("watch-*.lock")) == (1 if is_same else 2)


def test_a_file_that_cannot_be_written_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = _Reports()
    store = _store(reports)

    def refuse(path: Path, data: bytes) -> None:
        raise RmqctlError("Cannot use x: no space left on device.")

    monkeypatch.setattr("rmqctl.watch.incident_store.replace_file", refuse)
    for _ in range(3):
        store.add([_INCIDENT], {"text": "a"}, ["id"])
    assert reports == [
        "Cannot use x: no space left on device. After a restart, rmqctl notifies of open incidents again."
    ]
    assert not store.is_kept
    monkeypatch.undo()
    store.add([_INCIDENT], {"text": "a"}, ["id"])
    assert store.is_kept
    store.close()
