from __future__ import annotations

from rmqctl.changes.plan_parts import write_batches
from rmqctl.model.queue import MessageQueue


def _queues(**counts: int) -> dict[int, MessageQueue]:
    queues = [MessageQueue(topic, "broker-a", queue_id) for topic, count in counts.items() for queue_id in range(count)]
    return dict(enumerate(queues))


def test_one_queue_of_a_topic_without_offsets_is_written_before_the_others() -> None:
    assert write_batches(_queues(T=3, U=1, V=2), ()) == [[0, 3, 4], [1, 2, 5]]
    assert write_batches(_queues(T=3, U=1, V=2), {"T", "V"}) == [[3], [0, 1, 2, 4, 5]]
    assert write_batches(_queues(T=3), {"T"}) == [[0, 1, 2]]


def test_batches_are_bounded_and_leave_nothing_out() -> None:
    queues = _queues(T=200)
    first, *others = write_batches(queues, ())
    assert first == [0]
    assert max(map(len, others)) == 64
    assert sorted(number for batch in (first, *others) for number in batch) == list(queues)
    assert write_batches({}, ()) == []
