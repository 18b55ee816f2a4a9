"""How late a broker is to redeliver popped messages, by the records of its revive queue."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

import rmqctl.admin.messages.revive_log as revive_log
from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.rules.pop_checkpoints import UnrevivedRecords
from tests.admin.cluster import NOW_MS, BrokerState
from tests.admin.message_store import MessageStore, message_cluster
from tests.scripted_peer import passing, run

TOPIC, GROUP = "rmq_sys_REVIVE_LOG_C", "CID_RMQ_SYS_REVIVE_GROUP"
# The pop of a record, due so long ago.
LATE, DUE, LATER = 100_000, 50_000, -10_000


def found(records: Sequence[tuple[str, int]], done: int | None, *, expired: int = 0) -> UnrevivedRecords:
    """Return what is read of a broker with these records, check points or acknowledgements of pops, in one queue."""
    store = MessageStore(BrokerState("broker-a", tells_time=True))
    for tag, late_ms in records:
        pop = {"c": "G", "t": "T", "q": 0, "so": 0, "pt": NOW_MS - late_ms - 10_000}
        more = {"it": 10_000, "n": 1} if tag == "ck" else {"ao": 0} if tag == "ack" else {"aol": [0]}
        store.put(TOPIC, 0, body=json.dumps({**pop, **more}).encode(), tag=tag, at_ms=NOW_MS - late_ms)
    if done is not None:
        store.state.offsets[GROUP] = {TOPIC: {0: done}}
    if expired:
        store.delete_before(TOPIC, 0, expired)
    cluster = message_cluster(store)

    async def scenario() -> UnrevivedRecords:
        async with cluster.client() as client:
            (broker,) = (await fetch_cluster(client)).brokers
            return await passing(cluster.clock, revive_log.fetch_unrevived(client, broker))

    return run(scenario())


@pytest.mark.parametrize(
    ("records", "done", "count", "late_ms"),
    [
        # The stored offset is that of the last check point that is done; its acknowledgements stay behind it.
        ([("ck", LATE)], 0, 0, 0),
        ([("ck", LATE), ("ack", LATE)], 0, 1, 0),
        ([("ck", LATE), ("ck", LATE), ("ack", LATE), ("bAck", LATE)], 1, 2, 0),
        # Nothing is done yet, which the table of all queues reports as 0 too.
        ([("ck", LATE)], None, 1, LATE),
        ([("ck", LATE), ("ack", LATE)], None, 2, 0),
        ([("ck", LATE), ("ck", DUE)], 0, 1, DUE),
        ([("ck", LATE), ("ack", LATE), ("ck", DUE)], 0, 2, DUE),
        ([("ck", LATE), ("ack", LATE), ("ck", DUE), ("bAck", DUE)], 0, 3, 0),
        ([("ck", LATE), ("ack", LATE), ("ck", LATER)], 0, 2, 0),
    ],
)
def test_a_broker_is_late_with_check_points_only(
    records: list[tuple[str, int]], done: int | None, count: int, late_ms: int
) -> None:
    behind = found(records, done)
    assert behind.record_count == count
    # The broker's clock is known to within a few ms.
    assert behind.overdue_ms == pytest.approx(late_ms, abs=10)


def test_more_records_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revive_log, "_MOST_RECORDS", 2)
    acknowledged = [("ck", LATE), ("ack", LATE)]
    assert found([*acknowledged, ("ck", DUE)], None).overdue_ms == pytest.approx(LATE, abs=10)
    assert found([("ck", LATE), *[("ack", LATE)] * 40], 0).overdue_ms == 0


def test_records_that_are_deleted_are_not_waited_for() -> None:
    assert found([("ck", LATE), ("ck", LATE), ("ck", LATE), ("ck", DUE)], 0, expired=3).overdue_ms == pytest.approx(
        DUE, abs=10
    )
