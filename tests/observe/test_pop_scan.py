"""Popped messages that no client acknowledges, on a scripted broker with a real broker's records."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rmqctl.admin.messages.pop_log as pop_log
from rmqctl.observe.stuck_scan import StuckScan, scan_group
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.rules.pop_checkpoints import PopHindrance
from rmqctl.rules.stuck_queues import AgeSource, StuckReason
from tests.admin.cluster import BrokerState, Cluster, Group, running
from tests.admin.message_store import MessageStore, message_cluster
from tests.scripted_peer import passing, refused, run

TIMERS, REVIVE = "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster"


class Case:
    """A group that pops from T, with a clock of its own; `pop` and `ack` write the broker's records."""

    def __init__(self, **settings: str) -> None:
        self.store = MessageStore(BrokerState("broker-a", settings=settings))
        self.state = self.store.state
        for number in range(5):
            self.store.put("T", 0, body=f"m{number}".encode(), uniq=f"key{number}")
        self.state.offsets["G"] = {"T": {0: 5}}
        self.state.configured.add("G")
        self.state.groups = {"G": Group({"one": running({})}, consume_type="CONSUME_POP")}
        self.cluster: Cluster = message_cluster(self.store)
        self.now_ms = self.cluster.clock.now_ms()

    def _put(self, tag: str, body: dict[str, Any]) -> None:
        more = {"REAL_TOPIC": REVIVE, "REAL_QID": "2"}
        self.store.put(TIMERS, 0, body=json.dumps(body).encode(), tag=tag, more=more, at_ms=self.now_ms)

    def pop(self, *offsets: int, ago_ms: int, topic: str = "T", invisible_ms: int = 60_000) -> None:
        start = offsets[0]
        self._put("ck", {
            "bn": "broker-a", "c": "G", "d": [each - start for each in offsets], "it": invisible_ms,
            "n": len(offsets), "pt": self.now_ms - ago_ms, "q": 0, "so": start, "t": topic,
        })  # fmt: skip

    def ack(self, offset: int, *, start: int, ago_ms: int) -> None:
        self._put(
            "ack", {"ao": offset, "bn": "broker-a", "c": "G", "pt": self.now_ms - ago_ms, "q": 0, "so": start, "t": "T"}
        )

    def scan(self, *topics: str, older_than_ms: int | None = 10_000) -> StuckScan:
        async def main() -> StuckScan:
            async with self.cluster.client(open_ended=True) as client:
                asked = scan_group(client, "G", topics, older_than_ms=older_than_ms, window_s=1.0)
                return await passing(self.cluster.clock, asked)

        return run(main())


def test_messages_that_are_popped_for_too_long() -> None:
    case = Case()
    case.store.put(TIMERS, 0, body=b"an application's timer", more={"REAL_TOPIC": "T", "REAL_QID": "0"})
    case.pop(0, 1, ago_ms=30_000)
    case.ack(0, start=0, ago_ms=30_000)
    case.pop(2, ago_ms=5_000)
    found = case.scan()
    (row,) = found.stuck
    assert (row.verdict.why, row.verdict.source, row.progress.mq.topic) == (StuckReason.POPPED, AgeSource.POPPED, "T")
    assert row.verdict.at_least_ms is not None
    assert 30_000 <= row.verdict.at_least_ms < 35_000
    assert row.popped is not None
    assert (row.popped.queue_offset, row.popped.handle.split()[3]) == (1, "2")
    assert row.head is not None
    assert row.head.message is not None
    assert bytes(row.head.message.body) == b"m1"
    assert (found.failures, found.pop_notes) == ((), ())


def test_an_age_that_no_popped_message_reaches_is_said() -> None:
    case = Case()
    case.pop(0, ago_ms=30_000)
    found = case.scan(older_than_ms=None)
    assert found.queues == ()
    (note,) = found.pop_notes
    assert "1m" in note


def test_renewed_messages_are_counted_and_not_stuck() -> None:
    case = Case()
    case.pop(0, ago_ms=50_000)
    case.pop(0, ago_ms=30_000, invisible_ms=120_000)
    case.ack(0, start=0, ago_ms=50_000)
    found = case.scan()
    assert found.stuck == ()
    (note,) = found.pop_notes
    assert "of 1 popped message " in note


def test_a_retry_topic_that_was_not_asked_for_by_name() -> None:
    case = Case()
    case.store.put("%RETRY%G_T", 0, body=b"again", uniq="key9")
    case.pop(0, ago_ms=30_000, topic="%RETRY%G_T")
    case.pop(0, ago_ms=30_000, topic="U")
    (row,) = case.scan("T").stuck
    assert row.progress.mq.topic == "%RETRY%G_T"


@pytest.mark.parametrize(
    ("settings", "older_than_ms", "expected"),
    [
        ({"popConsumerKVServiceEnable": "true"}, 10_000, PopHindrance.KV_SERVICE),
        ({"enablePopBufferMerge": "true"}, 10_000, PopHindrance.IN_MEMORY),
        ({"enablePopBufferMerge": "true"}, 13_000, None),
        ({"enablePopBufferMerge": "true", "popCkStayBufferTime": "30000"}, 13_000, PopHindrance.IN_MEMORY),
    ],
)
def test_brokers_whose_pops_can_not_be_seen(
    settings: dict[str, str], older_than_ms: int, expected: PopHindrance | None
) -> None:
    case = Case(**settings)
    found = case.scan(older_than_ms=older_than_ms)
    assert found.pop_hindrances == ({} if expected is None else {"broker-a": expected})
    verdicts = {(each.verdict.why, each.verdict.is_stuck) for each in found.queues}
    assert verdicts == (set() if expected is None else {(StuckReason.POP, None)})


def test_a_group_that_pops_in_order() -> None:
    case = Case()
    case.state.group_configs["G"] = {"consumeMessageOrderly": True}
    assert case.scan().pop_hindrances == {"broker-a": PopHindrance.IN_ORDER}


def test_records_that_can_not_be_read() -> None:
    case = Case()
    case.cluster.servers["broker-a"].table[Q.GET_MAX_OFFSET] = refused(R.NO_PERMISSION)
    found = case.scan()
    assert found.pop_hindrances == {"broker-a": PopHindrance.UNREADABLE}
    assert [each.what for each in found.failures] == ["records of pops"]


def test_too_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_log, "MOST_RECORDS", 2)
    case = Case()
    case.pop(0, ago_ms=30_000)
    case.pop(1, ago_ms=30_000)
    case.pop(2, ago_ms=30_000)
    found = case.scan()
    assert [each.popped.queue_offset for each in found.stuck if each.popped] == [1, 2]
    assert [each.what for each in found.failures] == ["older records of pops"]
