"""`clean-expired --yes` of a group that is away: what is sent back and acknowledged, and what a broken run leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes.clean_expired import apply
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result, call
from tests.cli.change.seeded_sandbox import document, join, seeded, stored

Captured = pytest.CaptureFixture[str]
CLEAN = ("clean-expired", "G", "--for", "1ms", "--older-than", "1ms", "--queue", "broker-a:0")
SCHEDULED = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture(params=["5.4.0", "4.9.7"])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """A group without members that is at 6 of 10 in two queues."""
    monkeypatch.setattr(apply, "_SEEN_WITHIN_S", 0.5)
    with seeded(request.param, unique=True) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def clean(capsys: Captured, *words: str) -> Result:
    return call(capsys, *CLEAN, *words, "--yes", "-o", "json")


def item(result: Result) -> dict[str, Any]:
    (found,) = document(result)["items"]
    assert isinstance(found, dict)
    return found


def copies(sandbox: ThreadedSandbox, topic: str = SCHEDULED) -> int:
    """Return how many messages wait for their delay, or lie in a topic."""
    queues = range(18 if topic == SCHEDULED else 1)
    return sandbox.call(
        lambda inner: sum(inner.brokers["broker-a"].store.max_offset(topic, queue_id) for queue_id in queues)
    )


def test_a_message_is_sent_back_and_then_acknowledged(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    planned = call(capsys, *CLEAN, "--dry-run", "-o", "json")
    assert (planned.code, stored(sandbox), copies(sandbox)) == (10, {0: 6, 1: 6}, 0)
    (what,) = document(planned)["items"]
    assert [each["queueOffset"] for each in what["cleaning"]["messages"]] == [6]

    done = clean(capsys, "--reason", "poison")
    assert done.code == 0
    assert (item(done)["result"], item(done)["messages"][0]["result"]) == ("CONFIRMED", "CONFIRMED")
    assert (stored(sandbox), copies(sandbox)) == ({0: 7, 1: 6}, 1)

    receipt = tmp_path / "receipt.json"
    receipt.write_text(done.out)
    back = call(capsys, "offset", "undo", str(receipt), "--yes")
    assert (back.code, stored(sandbox)) == (0, {0: 6, 1: 6})


def test_dead_letters_are_made_on_request(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    done = clean(capsys, "--to-dlq")
    assert (done.code, stored(sandbox)[0], copies(sandbox), copies(sandbox, "%DLQ%G")) == (0, 7, 0, 1)


def test_what_is_refused_is_not_acknowledged(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.NO_PERMISSION, count=1)
    done = clean(capsys)
    assert (done.code, item(done)["result"], item(done)["messages"][0]["result"]) == (1, "NOT_ATTEMPTED", "UNCHANGED")
    assert (stored(sandbox), copies(sandbox)) == ({0: 6, 1: 6}, 0)


def test_a_broker_that_says_yes_and_stores_nothing_is_not_believed(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.SUCCESS, count=1)
    done = clean(capsys)
    assert (done.code, item(done)["messages"][0]["result"]) == (8, "UNKNOWN")
    assert (stored(sandbox), copies(sandbox)) == ({0: 6, 1: 6}, 0)


def test_an_answer_that_got_lost_is_no_failure(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.corrupt(Q.CONSUMER_SEND_MSG_BACK, count=1)
    done = clean(capsys)
    assert (done.code, item(done)["result"]) == (0, "CONFIRMED")
    assert (stored(sandbox)[0], copies(sandbox)) == (7, 1)


def test_a_run_that_broke_off_behind_the_send_is_finished_by_the_next(
    sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    """Its copy is found: it is not sent a second time."""
    sandbox.faults.answer(Q.UPDATE_CONSUMER_OFFSET, R.SYSTEM_ERROR, count=1)
    broken = clean(capsys)
    assert (broken.code != 0, item(broken)["messages"][0]["result"]) == (True, "CONFIRMED")
    assert (stored(sandbox)[0], copies(sandbox)) == (6, 1)

    done = clean(capsys)
    assert (done.code, stored(sandbox)[0], copies(sandbox)) == (0, 7, 1)
    assert document(broken)["id"] in item(done)["messages"][0]["note"]


def test_the_same_message_later_is_another_matter(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    """It was acknowledged, and the group was sent back to it: it is sent back once more."""
    assert clean(capsys).code == 0
    assert call(capsys, "offset", "reset", "G", "--topic", "T", "--to-offset", "6", "--yes").code == 0
    assert (clean(capsys).code, copies(sandbox)) == (0, 2)


def test_a_saved_plan_holds_as_long_as_the_group_stays_where_it_is(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    assert call(capsys, *CLEAN, "--plan", str(path)).code == 10
    assert call(capsys, "plan", "show", str(path)).code == 0
    assert call(capsys, "apply", str(path), "--yes").code == 0
    assert (stored(sandbox)[0], copies(sandbox)) == (7, 1)

    changed = json.loads(path.read_text())
    changed["items"][0]["target"] = 9
    path.write_text(json.dumps(changed))
    assert call(capsys, "apply", str(path), "--yes").code == 2
    assert stored(sandbox)[0] == 7


def test_a_member_that_came_meanwhile_makes_the_plan_stale(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    assert call(capsys, *CLEAN, "--plan", str(path)).code == 10
    join(sandbox)
    assert call(capsys, "apply", str(path), "--yes").code == 7
    assert (stored(sandbox)[0], copies(sandbox)) == (6, 0)


@pytest.mark.parametrize(
    "words",
    [
        ("clean-expired", "G", "--yes"),
        ("clean-expired", "G", "--dry-run"),
        ("clean-expired", "G*", "--older-than", "1m", "--yes"),
        (*CLEAN, "--to-dlq", "--delay-level", "3", "--yes"),
        (*CLEAN, "--delay-level", "19", "--yes"),
        (*CLEAN, "--plan", "-"),
    ],
)
def test_what_can_not_be_cleaned(sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...]) -> None:
    assert call(capsys, *words).code == 2
    assert (stored(sandbox), copies(sandbox)) == ({0: 6, 1: 6}, 0)


def test_nothing_to_clean(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    """Without --queue nothing of a group without members is meant; what is younger is left."""
    assert call(capsys, *CLEAN[:6], "--yes").code == 0
    assert call(capsys, "clean-expired", "G", "--for", "1ms", "--older-than", "1d", *CLEAN[6:], "--yes").code == 0
    assert (stored(sandbox), copies(sandbox)) == ({0: 6, 1: 6}, 0)


def test_a_protected_context_wants_the_groups_name(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[contexts.prod]\nnamesrv = "{sandbox.addr}"\nprotected = true\n')
    monkeypatch.setenv("RMQCTL_CONFIG", str(config))
    monkeypatch.delenv("NAMESRV_ADDR")
    assert call(capsys, *CLEAN, "--context", "prod", "--yes", "-o", "json").code == 2
    assert stored(sandbox)[0] == 6
    assert call(capsys, *CLEAN, "--context", "prod", "--confirm", "G", "-o", "json").code == 0
    assert stored(sandbox)[0] == 7
    config.write_text(config.read_text().replace("protected", "readonly"))
    assert call(capsys, *CLEAN, "--context", "prod", "--yes").code != 0
    assert stored(sandbox)[0] == 7
