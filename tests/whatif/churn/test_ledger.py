"""The ledger: deliveries and duplicates of a queue, and time without an owner or with two."""

from __future__ import annotations

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.whatif.churn.ledger import MessageLedger, PullSession, QueueLedger

MQ = MessageQueue("T", "a", 0)


def _ledger(rate: float = 10.0, consume_ms: float = 50.0) -> tuple[MessageLedger, QueueLedger]:
    """Return a ledger of one queue, whose messages arrive at 0 ms, 100 ms and so on."""
    queue = QueueLedger(rate, 0.0)
    return MessageLedger({MQ: queue}, consume_ms=consume_ms, commit_every_ms=5000, thread_count=20), queue


def _session(queue: QueueLedger, start: int, begun_ms: float) -> PullSession:
    return PullSession(queue, start, begun_ms, commit_phase_ms=0.0)


def test_one_owner_consumes_each_message_once() -> None:
    ledger, queue = _ledger()
    ledger.begin(_session(queue, 0, 0.0))
    ledger.finish(10_050)
    assert (queue.arrived(10_050), queue.high, ledger.duplicate_count) == (101, 101, 0)
    assert (ledger.unowned_ms, ledger.shared_ms) == (0, 0)


def test_two_owners_consume_the_same_messages() -> None:
    ledger, queue = _ledger()
    old = _session(queue, 0, 0.0)
    ledger.begin(old)
    # The last pull, at 1000 ms, has committed the 10 messages that were completed then.
    assert ledger.read_committed(queue, 1040) == 10
    new = _session(queue, 10, 1540.0)
    ledger.begin(new)
    ledger.end_committed(old, 3040, 3041)
    ledger.finish(4000)
    # The old owner has consumed the messages 10 to 30, and the new one all from 10 on.
    assert ledger.duplicate_count == 21
    assert ledger.shared_ms == 1500


def test_a_member_that_is_killed_leaves_what_its_last_pull_committed() -> None:
    ledger, queue = _ledger(consume_ms=1.0)
    killed = _session(queue, 0, 0.0)
    ledger.begin(killed)
    ledger.end(killed, 950)
    # The message of 900 ms is consumed, but only the next pull would commit it.
    assert ledger.read_committed(queue, 950) == 9
    ledger.begin(_session(queue, 9, 2000.0))
    ledger.finish(3000)
    assert ledger.duplicate_count == 1
    assert ledger.unowned_ms == 2000 - 950


def test_a_member_that_stops_commits_what_it_has_completed() -> None:
    ledger, queue = _ledger(consume_ms=300.0)
    stopped = _session(queue, 0, 0.0)
    ledger.begin(stopped)
    ledger.end_committed(stopped, 950, 952)
    # It had 10 messages, and the last 3 were still in its listener.
    assert (queue.high, ledger.read_committed(queue, 951), ledger.read_committed(queue, 952)) == (10, 7, 7)


def test_a_commit_counts_only_when_the_broker_has_it() -> None:
    ledger, queue = _ledger(rate=0.1, consume_ms=1.0)
    old = _session(queue, 0, 0.0)
    ledger.begin(old)
    # One message, consumed at 1 ms: no pull has committed it, and the regular commit is after 5 s.
    ledger.end_committed(old, 100, 110)
    assert [ledger.read_committed(queue, at_ms) for at_ms in (100, 109, 110)] == [0, 0, 1]


def test_regular_commits_cover_what_no_pull_has_committed() -> None:
    ledger, queue = _ledger(rate=0.1, consume_ms=1.0)
    ledger.begin(_session(queue, 0, 0.0))
    assert [ledger.read_committed(queue, at_ms) for at_ms in (4999, 5000)] == [0, 1]


def test_a_queue_without_messages_has_no_duplicates() -> None:
    ledger, queue = _ledger(rate=0.0)
    for begun_ms in (0.0, 10.0):
        ledger.begin(_session(queue, 0, begun_ms))
    ledger.finish(1000)
    assert (queue.arrived(1000), ledger.duplicate_count, ledger.shared_ms) == (0, 0, 990)


@pytest.mark.parametrize("at_ms", [0.0, 700.0])
def test_the_group_is_settled_since_each_queue_has_one_owner(at_ms: float) -> None:
    ledger, queue = _ledger()
    assert ledger.settled_at_ms is None
    session = _session(queue, 0, at_ms)
    ledger.begin(session)
    assert ledger.settled_at_ms == at_ms
    ledger.end(session, 900)
    assert ledger.settled_at_ms is None


def test_an_owner_consumes_what_waited_with_all_its_threads() -> None:
    ledger, queue = _ledger(rate=1000.0, consume_ms=50.0)
    session = _session(queue, 0, 10_000.0)
    ledger.begin(session)
    # 20 threads, 50 ms each: 40 have ended, 20 more have begun, of the 10,000 that waited.
    assert ledger.end_committed(session, 10_110.0, 10_110.0) == 60
    assert ledger.read_committed(queue, 10_110.0) == 40
    assert ledger.duplicate_count == 0


def test_the_message_in_the_listener_is_committed_when_the_owner_waits_for_it() -> None:
    for with_last, committed in ((False, 3), (True, 4)):
        ledger, queue = _ledger()
        session = _session(queue, 0, 0.0)
        ledger.begin(session)
        assert ledger.rest_ms(session, 320.0) == pytest.approx(30.0)
        assert ledger.rest_ms(session, 399.0) == 0
        ledger.end_committed(session, 320.0, 320.0, with_last=with_last)
        assert ledger.read_committed(queue, 320.0) == committed


def test_a_queue_without_an_owner_at_the_end_has_none_until_then() -> None:
    ledger, queue = _ledger()
    session = _session(queue, 0, 0.0)
    ledger.begin(session)
    ledger.end(session, 2000)
    ledger.finish(10_000)
    assert ledger.unowned_ms == 8000
