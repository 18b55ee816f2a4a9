"""Checks of progress: what two readings of a group must show, and what is not a fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.diagnose.diagnosis import diagnose
from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.rules.motions import idle_motions
from rmqctl.diagnose.table import CHECKS
from rmqctl.model.group import (
    BROADCASTING,
    CLUSTERING,
    GroupConfig,
    GroupConnections,
    GroupState,
    Member,
    MemberView,
    ProcessQueueInfo,
    RunningInfo,
    Subscription,
    TopicConsumeStatus,
)
from rmqctl.model.progress import QueueProgress, QueueReading, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health.positions import Position, PositionPair
from rmqctl.rules.holder_report import Holder
from rmqctl.rules.progress import compute_progress
from rmqctl.rules.retry_places import RetryPlace
from rmqctl.rules.stuck_queues import AgeSource, StuckFacts, StuckReason, StuckVerdict, judge

_NOW_MS = 1_795_238_200_000
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_A0, _A1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
PROGRESS = [check for check in CHECKS if check.code.startswith(("PRG", "OFF"))]


def _held(commit: int | None, head: int | None = None, count: int = 1, last: int | None = None) -> ProcessQueueInfo:
    if head is None:
        return ProcessQueueInfo(0, 0, 0, commit, dropped=False, last_pull_at_ms=_NOW_MS, locked_at_ms=1)
    end = head + count - 1 if last is None else last
    return ProcessQueueInfo(count, head, end, commit, dropped=False, last_pull_at_ms=_NOW_MS, locked_at_ms=1)


def _quiet(for_ms: int) -> ProcessQueueInfo:
    return replace(_held(50), last_consume_at_ms=_NOW_MS - for_ms)


def _at(held: ProcessQueueInfo | None, end: int, stored: int | None = None) -> Position:
    return Position(held.commit_offset if stored is None and held is not None else stored, end, held, 0)


def _motion(
    first: Position, last: Position, verdict: StuckVerdict | None = None, *, mq: MessageQueue = _A0,
    client_id: str | None = "c1", is_exhausted: bool = False,
) -> QueueMotion:  # fmt: skip
    return QueueMotion(mq, client_id, PositionPair(first, last, 2_000, False), 2_000, verdict, is_exhausted)


def _moved(from_offset: int, to_offset: int, end_before: int, end: int, mq: MessageQueue = _A0) -> QueueMotion:
    """Return a queue that goes on, with ten messages in hand, between two ends."""
    return _motion(
        _at(_held(from_offset, from_offset, 10), end_before), _at(_held(to_offset, to_offset, 10), end), mq=mq
    )


def _slow() -> QueueMotion:
    """Return a queue that receives 0.1 and loses 0.025 messages per second over a quarter of an hour."""
    return replace(_moved(100, 125, 1_000, 1_100), passed_ms=1_000_000)


def _resting(verdict: StuckVerdict, head: int = 5, end: int = 100, **more: Any) -> QueueMotion:
    position = _at(_held(head, head), end)
    return _motion(position, position, verdict, **more)


def _row(mq: MessageQueue = _A0, **fields: Any) -> QueueProgress:
    reading = QueueReading(mq, **{"min_offset": 0, "max_offset": 100, "client_ids": ("c1",), **fields})
    return compute_progress(reading)


def _info(
    *queues: tuple[MessageQueue, ProcessQueueInfo], tps: float = 0.0, rt_ms: float = 0.0, **properties: str
) -> RunningInfo:
    given = {
        "messageModel": CLUSTERING,
        "PROP_CONSUMEORDERLY": "false",
        "PROP_CONSUMER_START_TIMESTAMP": str(_NOW_MS - _HOUR_MS),
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeTimeout": "15",
        **properties,
    }
    statuses = {"T": TopicConsumeStatus(1.0, tps, rt_ms, tps, 0.0, 0)}
    return RunningInfo(given, dict(queues), {}, statuses)


def _facts(
    *motions: QueueMotion, rows: tuple[QueueProgress, ...] = (), running: Mapping[str, RunningInfo] | None = None,
    **more: Any,
) -> GroupFacts:  # fmt: skip
    infos = {"c1": _info()} if running is None else running
    members = tuple(MemberView(client_id, {}, (), (), ()) for client_id in infos)
    return GroupFacts(
        "G", _NOW_MS, more.pop("state", GroupState.ONLINE), members=members, running=infos, rows=rows, motions=motions,
        **more,
    )  # fmt: skip


def _found(facts: GroupFacts) -> set[tuple[str, str]]:
    findings = diagnose(facts, PROGRESS).findings
    for finding in findings:
        assert finding.sentence.endswith(".")
        assert "\n" not in finding.sentence
        assert finding.symptom.evidence
        assert (finding.symptom.next_command or "").startswith("rmqctl ")
    return {(finding.code, str(finding.severity)) for finding in findings}


_STUCK = StuckVerdict(StuckReason.IN_CONSUMPTION, True, 2 * _MINUTE_MS, 3 * _MINUTE_MS, AgeSource.LAST_CONSUMED)
_UNDECIDED = StuckVerdict(StuckReason.IN_CONSUMPTION, None, 2_000, None, AgeSource.WATCHED, needs_time=True)
_PAUSED, _NOT_PULLED, _NOT_POLLED, _UNHELD, _UNPOPPED = (
    StuckVerdict(why, False, is_overdue=True)
    for why in (
        StuckReason.PAUSED, StuckReason.NOT_PULLED, StuckReason.NOT_POLLED, StuckReason.NOT_REPORTED, StuckReason.POP,
    )
)  # fmt: skip
_IDLE = _at(_held(40), 100)
_UNCOMMITTED = _at(_held(None, 0, 100), 100)


def _filtered(head_age_ms: int, *, pulled_ms: int = _NOW_MS, last_ms: int = _HOUR_MS) -> QueueMotion:
    """Return a queue whose member has nothing in flight, before a message that its filter leaves out."""
    held = replace(_held(40), last_pull_at_ms=pulled_ms, last_consume_at_ms=_NOW_MS - last_ms)
    watched = PositionPair(_at(held, 100), _at(held, 100), 2_000, False)
    facts = StuckFacts(
        watched=watched, state=GroupState.ONLINE, holder=Holder("c1", now_ms=_NOW_MS), head_age_ms=head_age_ms,
        is_wanted=False,
    )  # fmt: skip
    return _motion(watched.first, watched.last, judge(facts, None))


def _unheld(verdict: StuckVerdict = _UNHELD, mq: MessageQueue = _A0, *, for_ms: int = 60_000) -> QueueMotion:
    """Return a queue with unread messages that no member reports, and whose offset did not move."""
    position = _at(None, 100, 40)
    return QueueMotion(mq, None, PositionPair(position, position, for_ms, False), for_ms, verdict)


_CAST = {"c1": _info(messageModel=BROADCASTING)}
_PULLING = {"c1": replace(_info(PROP_CONSUME_TYPE="CONSUME_ACTIVELY"), subscriptions=(Subscription("T"),))}
_ELSEWHERE = {"c1": replace(_PULLING["c1"], subscriptions=(Subscription("U"),))}
_FORBIDDEN = GroupConfig("G", True, True, 1, 16, {}, ("T",))
_OLD = _row(consumer_offset=10, head_age_ms=2 * _HOUR_MS)
_FULL = _held(0, 0, 1_001)
_SPAN = _held(0, 0, 500, 2_001)


def _aged(age_ms: int, retention_ms: int, *, lag: int = 90) -> QueueProgress:
    return _row(consumer_offset=100 - lag, head_age_ms=age_ms, retention_ms=retention_ms)


_TWO_THREADS = {"PROP_THREADPOOL_CORE_SIZE": "2", "consumeMessageBatchMaxSize": "1"}

SICK: list[tuple[str, GroupFacts, set[tuple[str, str]]]] = [
    ("a stuck head", _facts(_resting(_STUCK)), {("PRG001", "ERROR")}),
    ("one of two queues stuck", _facts(_resting(_STUCK), _moved(5, 9, 10, 10, _A1)), {("PRG001", "ERROR")}),
    ("paused", _facts(_motion(_IDLE, _IDLE, _PAUSED)), {("PRG002", "ERROR")}),
    ("paused, and broadcasting", _facts(_motion(_IDLE, _IDLE, _PAUSED), running=_CAST), {("PRG002", "ERROR")}),
    ("members that pull by themselves no longer pull", _facts(_unheld(), running=_PULLING), {("PRG002", "ERROR")}),
    (
        "the same without a subscription",
        _facts(_unheld(), running={"c1": _info(PROP_CONSUME_TYPE="CONSUME_ACTIVELY")}),
        {("PRG002", "ERROR")},
    ),
    (
        "members that pull by themselves did not commit for half a minute",
        _facts(_unheld(for_ms=32_000), running=_PULLING),
        {("PRG002", "WARNING")},
    ),
    (
        "an application no longer polls what its member has prefetched",
        _facts(_resting(_NOT_POLLED), running=_PULLING),
        {("PRG002", "ERROR")},
    ),
    (
        "the same before the first commit",
        _facts(_motion(_UNCOMMITTED, _UNCOMMITTED, _NOT_POLLED), running=_PULLING),
        {("PRG002", "ERROR")},
    ),
    (
        "members no longer pop",
        _facts(_unheld(_UNPOPPED, for_ms=32_000), running={"c1": replace(_info(), pop_unacked={_A0: 0})}),
        {("PRG002", "ERROR")},
    ),
    ("no longer pulled", _facts(_motion(_IDLE, _IDLE, _NOT_PULLED)), {("PRG002", "ERROR")}),
    (
        "no longer pulled, before messages that the filter leaves out",
        _facts(_filtered(20_000, pulled_ms=_NOW_MS - 31_000)),
        {("PRG002", "ERROR")},
    ),
    ("pulls of filtered messages fail", _facts(_filtered(_HOUR_MS)), {("PRG002", "ERROR")}),
    ("the member's position moved back", _facts(_moved(50, 20, 100, 100)), {("PRG003", "WARNING")}),
    (
        "the stored offset moved back",
        _facts(_motion(_at(_held(50), 50, 50), _at(_held(50), 50, 10))),
        {("PRG003", "WARNING")},
    ),
    (
        "the stored offset stays behind an idle member",
        _facts(
            _motion(_at(_quiet(_MINUTE_MS), 50, 10), _at(_quiet(_MINUTE_MS), 50, 10)),
            running={"c1": _info((_A0, _held(50)))},
            rows=(_row(consumer_offset=10, head_age_ms=_MINUTE_MS),),
        ),
        {("PRG003", "WARNING")},
    ),
    (
        "messages arrive faster than they are consumed",
        _facts(_moved(100, 140, 1_000, 1_200), rows=(_row(consumer_offset=90, head_age_ms=_MINUTE_MS),)),
        {("PRG004", "WARNING")},
    ),
    (
        "a slow group receives less than a message per second, and falls behind",
        _facts(_slow(), rows=(_row(consumer_offset=90, head_age_ms=_MINUTE_MS),)),
        {("PRG004", "WARNING")},
    ),
    ("many messages in flight", _facts(running={"c1": _info((_A0, _FULL))}), {("PRG005", "INFO")}),
    (
        "one unfinished message blocks pulls of its queue",
        _facts(_motion(_at(_SPAN, 9_000), _at(_SPAN, 9_000), _UNDECIDED), running={"c1": _info((_A0, _SPAN))}),
        {("PRG005", "WARNING")},
    ),
    ("a wide span that moves", _facts(running={"c1": _info((_A0, _SPAN))}), {("PRG005", "INFO")}),
    (
        "threads are busy",
        _facts(running={"c1": _info((_A0, _held(0, 0, 100)), tps=20, rt_ms=100, **_TWO_THREADS)}),
        {("PRG006", "INFO")},
    ),
    (
        "threads are busy and the lag grows",
        _facts(
            _moved(100, 140, 1_000, 1_200),
            rows=(_row(consumer_offset=90, head_age_ms=_MINUTE_MS),),
            running={"c1": _info((_A0, _held(0, 0, 100)), tps=20, rt_ms=100, **_TWO_THREADS)},
        ),
        {("PRG004", "WARNING"), ("PRG006", "WARNING")},
    ),
    (
        "a message is about to be sent back",
        _facts(_resting(replace(_STUCK, at_least_ms=13 * _MINUTE_MS))),
        {("PRG001", "ERROR"), ("PRG007", "WARNING")},
    ),
    ("due for deletion", _facts(rows=(_aged(2 * _HOUR_MS, _HOUR_MS),)), {("OFF007", "ERROR"), ("OFF008", "INFO")}),
    (
        "soon due for deletion",
        _facts(rows=(_aged(50 * _MINUTE_MS, _HOUR_MS - 5 * _MINUTE_MS),)),
        {("OFF007", "WARNING")},
    ),
    (
        "due for deletion, and no member",
        _facts(rows=(_aged(2 * _HOUR_MS, _HOUR_MS),), state=GroupState.EMPTY, running={}),
        {("OFF007", "WARNING")},
    ),
    ("a consumer with LAST_OFFSET reads old messages", _facts(rows=(_OLD,)), {("OFF008", "INFO")}),
    (
        "a queue that does not start at 0 has no offset",
        _facts(rows=(
            _row(consumer_offset=100),
            _row(_A1, min_offset=50, client_ids=(), reasons={"consumerOffset": Unknown.NEVER_COMMITTED}),
        )),
        {("OFF009", "WARNING")},
    ),
    (
        "the broker reported that it has no offset",
        _facts(
            rows=(_row(consumer_offset=100), _row(_A1, reasons={"consumerOffset": Unknown.NEVER_COMMITTED})),
            running={"c1": _info((_A1, _held(None)))},
        ),
        {("OFF009", "WARNING")},
    ),
    (
        "a broadcasting member that is far behind",
        _facts(_motion(_at(_held(0, 0), 2_000), _at(_held(0, 0), 2_000), _UNDECIDED), running=_CAST),
        {("OFF010", "WARNING")},
    ),
    (
        "a broadcasting member that catches up",
        _facts(_moved(0, 100, 2_000, 2_000), running=_CAST),
        {("OFF010", "INFO")},
    ),
    ("offsets of a broadcasting group", _facts(rows=(_row(consumer_offset=5),), running=_CAST), {("OFF011", "INFO")}),
]  # fmt: skip
TRIED = {code for _, _, found in SICK for code, _ in found}

HEALTHY: list[tuple[str, GroupFacts]] = [
    ("only one reading", _facts()),
    ("a slow client that moves", _facts(_motion(
        _at(_held(5, 5), 100), _at(_held(6, 6), 100), StuckVerdict(StuckReason.SLOW, is_stuck=False)
    ), rows=(_row(consumer_offset=5, head_age_ms=_HOUR_MS - 1),))),
    ("a message in flight for a moment", _facts(_resting(_UNDECIDED))),
    ("a quiet topic", _facts(_motion(_at(_held(100), 100), _at(_held(100), 100)), rows=(_row(consumer_offset=100),))),
    ("a fresh group", _facts(
        _motion(_at(_held(None), 0), _at(_held(None), 0)),
        rows=(_row(max_offset=0, reasons={"consumerOffset": Unknown.NEVER_COMMITTED}),),
    )),
    ("a fresh group at the end of old queues", _facts(
        rows=(_row(min_offset=50, reasons={"consumerOffset": Unknown.NEVER_COMMITTED}),),
        running={"c1": _info((_A0, _held(None)))},
    )),
    ("catching up", _facts(
        _moved(100, 400, 1_000, 1_200), rows=(_row(consumer_offset=90, head_age_ms=_MINUTE_MS),),
    )),
    ("a burst, just now", _facts(_moved(100, 140, 1_000, 9_000), rows=(_row(consumer_offset=90, head_age_ms=9_000),))),
    ("members count more messages than arrive", _facts(
        _moved(100, 140, 1_000, 1_200), rows=(_row(consumer_offset=90, head_age_ms=_MINUTE_MS),),
        running={"c1": _info(tps=100)},
    )),
    ("a live member is about to pass messages that its filter leaves out", _facts(_filtered(20_000))),
    ("a live member has just finished the messages before filtered ones", _facts(_filtered(_HOUR_MS, last_ms=20_000))),
    ("paused for a moment", _facts(_motion(_IDLE, _IDLE, replace(_PAUSED, is_overdue=False)))),
    ("members that pull by themselves, and commit", _facts(
        _unheld(replace(_UNHELD, is_overdue=False)), running=_PULLING
    )),
    ("members that pull by themselves may commit soon", _facts(
        _unheld(replace(_UNHELD, is_overdue=None)), running=_PULLING
    )),
    ("no member subscribes to the topic any longer", _facts(_unheld(), running=_ELSEWHERE)),
    ("members that pull by themselves read no retry topic", _facts(
        _unheld(mq=MessageQueue("%RETRY%G", "broker-a", 0)), running=_PULLING
    )),
    ("an application that polls slowly", _facts(
        _resting(replace(_NOT_POLLED, is_overdue=False)), running=_PULLING
    )),
    ("members that pop", _facts(
        _unheld(replace(_UNPOPPED, is_overdue=False)), running={"c1": replace(_info(), pop_unacked={_A0: 0})}
    )),
    ("members may pop behind a proxy", _facts(
        _unheld(_UNPOPPED), running={"c1": replace(_info(), pop_unacked={_A0: 0})}, proxied={
            "px:1": GroupConnections((Member("c9", "192.0.2.1:1", "JAVA", 1),), "", "", "", {})
        }
    )),
    ("a popped queue, and members that pull", _facts(
        _unheld(), running={**_PULLING, "c2": replace(_info(), pop_unacked={_A0: 0})}
    )),
    ("members that pull by themselves are refused", _facts(
        _unheld(), running=_PULLING, configs={"broker-a": replace(_FORBIDDEN, consume_enable=False)}
    )),
    ("an unknown member behind a proxy", _facts(_unheld(), running=_PULLING, proxied={
        "px:1": GroupConnections((Member("c9", "192.0.2.1:1", "JAVA", 1),), "", "", "", {})
    })),
    ("pulls that the broker refuses", _facts(_motion(_IDLE, _IDLE, _PAUSED), configs={"broker-a": _FORBIDDEN})),
    ("a topic without read permission", _facts(_motion(_IDLE, _IDLE, _PAUSED), closed_brokers={"T": ("broker-a",)})),
    ("an offset that is committed within 5 s", _facts(
        _motion(_at(_quiet(5_000), 50, 10), _at(_quiet(5_000), 50, 10)),
        running={"c1": _info((_A0, _held(50)))},
        rows=(_row(consumer_offset=10, head_age_ms=_MINUTE_MS),),
    )),
    ("a member passes new messages that its filter leaves out", _facts(
        _motion(_at(_quiet(_MINUTE_MS), 50, 10), _at(_quiet(_MINUTE_MS), 50, 10)),
        running={"c1": _info((_A0, _held(50)))},
        rows=(_row(consumer_offset=10, head_age_ms=3_000),),
    )),
    ("a message waits for a thread", _facts(_resting(
        StuckVerdict(StuckReason.SLOW, False, 14 * _MINUTE_MS, source=AgeSource.LAST_CONSUMED), is_exhausted=True
    ))),
    ("a long-running orderly message", _facts(
        _resting(StuckVerdict(StuckReason.SLOW, False, 14 * _MINUTE_MS)),
        running={"c1": _info(PROP_CONSUMEORDERLY="true")},
    )),
    ("busy threads, and nothing waits", _facts(
        running={"c1": _info((_A0, _held(0, 0, 2)), tps=20, rt_ms=100, **_TWO_THREADS)},
    )),
    ("batches of unknown size", _facts(
        running={"c1": _info((_A0, _held(0, 0, 100)), tps=20, rt_ms=100, PROP_THREADPOOL_CORE_SIZE="2")},
    )),
    ("large batches", _facts(running={"c1": _info(
        (_A0, _held(0, 0, 100)), tps=20, rt_ms=100, PROP_THREADPOOL_CORE_SIZE="2", consumeMessageBatchMaxSize="32",
    )})),
    ("messages are read before they are due for deletion", _facts(
        _moved(10, 60, 100, 100), rows=(_aged(50 * _MINUTE_MS, _HOUR_MS - 5 * _MINUTE_MS),),
    )),
    ("messages are far from deletion", _facts(rows=(_aged(50 * _MINUTE_MS, 72 * _HOUR_MS),))),
    ("messages are read quickly from a full disk", _facts(rows=(_aged(10_000, 0),))),
    ("a consumer with FIRST_OFFSET reads old messages", _facts(
        rows=(_OLD,), running={"c1": _info(consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")},
    )),
    ("a new queue for which the broker returns 0", _facts(
        rows=(_row(consumer_offset=100), _row(_A1, reasons={"consumerOffset": Unknown.NEVER_COMMITTED})),
        running={"c1": _info((_A1, _held(0)))},
    )),
    ("a new queue that no member holds yet", _facts(rows=(
        _row(consumer_offset=100), _row(_A1, client_ids=(), reasons={"consumerOffset": Unknown.NEVER_COMMITTED}),
    ))),
    ("broadcasting", _facts(_motion(_at(_held(100), 100), _at(_held(100), 100)), running=_CAST)),
    ("broadcasting, with old offsets that no member uses", _facts(
        _motion(_at(_held(10, 10), 100, 90), _at(_held(9, 9), 100, 20)), running=_CAST,
    )),
]  # fmt: skip


@pytest.mark.parametrize(("what", "facts", "expected"), SICK, ids=[row[0] for row in SICK])
def test_a_fault_is_found_and_no_other(what: str, facts: GroupFacts, expected: set[tuple[str, str]]) -> None:
    assert _found(facts) == expected


@pytest.mark.parametrize(("what", "facts"), HEALTHY, ids=[row[0] for row in HEALTHY])
def test_nothing_is_wrong_with_the_healthy(what: str, facts: GroupFacts) -> None:
    assert _found(facts) == set()


# Members that pop or broadcast at other queues.
_POPS = replace(_info(clientRebalance="false"), pop_unacked={MessageQueue("T", "broker-b", -1): 0})
_ALONE = [row for row in SICK if "c1" in row[1].running and row[1].running != _CAST]


@pytest.mark.parametrize("other", [_POPS, _info(messageModel=BROADCASTING)], ids=["pops", "broadcasts"])
@pytest.mark.parametrize(("what", "facts", "expected"), _ALONE, ids=[row[0] for row in _ALONE])
def test_what_another_member_does_hides_no_fault(
    what: str, facts: GroupFacts, expected: set[tuple[str, str]], other: RunningInfo
) -> None:
    assert _found(replace(facts, running={**facts.running, "c2": other})) == expected


def test_a_member_that_shares_queues_is_not_said_to_broadcast() -> None:
    behind = _moved(0, 100, 2_000, 2_000)
    mixed = {"c1": _info(), "c2": _info(messageModel=BROADCASTING)}
    assert _found(_facts(behind, running=mixed)) == set()
    assert _found(_facts(replace(behind, client_id="c2"), running=mixed)) == {("OFF010", "INFO")}


def test_pops_move_the_offset_of_a_queue_that_another_member_pulls() -> None:
    both_ways = {"c1": _info((_A0, _held(50))), "c2": replace(_POPS, pop_unacked={_A0: 0})}
    assert _found(_facts(_moved(50, 20, 100, 100), running=both_ways)) == set()


def test_a_slow_group_has_its_true_rates() -> None:
    (finding,) = diagnose(_facts(_slow(), rows=(_row(consumer_offset=90, head_age_ms=_MINUTE_MS),)), PROGRESS).findings
    assert "receives 0.1 msg/s, but the group consumes 0.025 msg/s" in finding.sentence
    assert [fact.value for fact in finding.symptom.evidence[:2]] == [0.1, 0.025]


def test_a_queue_whose_pops_cannot_be_judged_is_open() -> None:
    open_pops = _unheld(replace(_UNPOPPED, is_overdue=None))
    popping = {"c1": replace(_info(), pop_unacked={_A0: 200})}
    assert idle_motions(_facts(open_pops, running=popping), [open_pops]) == [open_pops]
    assert not {code for code, _ in _found(_facts(open_pops, running=popping))} - {"OFF006"}


_CASTS_TOO = {"c1": _info(), "c2": _info(messageModel=BROADCASTING)}
_POPS_TOO = {"c1": _info(), "c2": replace(_info(), pop_unacked={_A1: 0})}
_LITE, _CPP = (
    {"broker-a": GroupConnections(members, consume_type, CLUSTERING, "", {})}
    for members, consume_type in (
        ((), "CONSUME_ACTIVELY"),
        (tuple(Member(f"c{lang}", "192.0.2.1:1", lang, 1) for lang in ("JAVA", "CPP")), "CONSUME_PASSIVELY"),
    )
)


@pytest.mark.parametrize(
    ("what", "more", "is_offered"),
    [
        ("push consumers", {}, True),
        ("a lite pull consumer beside it", {"running": {"c1": _info(), "c2": _PULLING["c1"]}}, False),
        ("a lite pull consumer at a broker", {"connections": _LITE}, False),
        (
            "a member that broadcasts beside it",
            {"running": _CASTS_TOO},
            False,
        ),
        (
            "a member that pops beside it",
            {"running": _POPS_TOO},
            False,
        ),
        ("members of several languages", {"connections": _CPP}, False),
        ("the broker stores no retries", {"retry_places": {"broker-a": RetryPlace(is_writable=False)}}, False),
    ],
)
def test_cleaning_is_offered_only_where_it_is_not_refused(what: str, more: dict[str, Any], is_offered: bool) -> None:
    findings = diagnose(_facts(_resting(_STUCK), **more), PROGRESS).findings
    (found,) = (each for each in findings if each.code == "PRG001")
    assert ("--dry-run" in (found.symptom.next_command or "")) is is_offered, what


@pytest.mark.parametrize("is_exhausted", [False, True])
def test_a_message_that_may_wait_for_a_thread_is_not_sent_back(is_exhausted: bool) -> None:
    (finding,) = (
        each
        for each in diagnose(_facts(_resting(_STUCK, is_exhausted=is_exhausted)), PROGRESS).findings
        if each.code == "PRG001"
    )
    assert ("--dry-run" in (finding.symptom.next_command or "")) is not is_exhausted
    assert ("in its listener for at least" in finding.sentence) is not is_exhausted
