from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.source.ranges import QueueRange, admit, offsets_as_json, offsets_of_json, share_out


def _queue(number: int) -> MessageQueue:
    return MessageQueue("Orders", f"broker-{'ab'[number % 2]}", number)


def _range(number: int, first_offset: int, count: int) -> QueueRange:
    return QueueRange(_queue(number), f"h:{number}", first_offset, first_offset + count)


_RANGES = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)), max_size=12).map(
    lambda pairs: [_range(number, first, count) for number, (first, count) in enumerate(pairs)]
)


@given(_RANGES, st.integers(1, 9), st.integers(1, 9), st.integers(1, 200))
def test_every_offset_is_in_exactly_one_part(
    ranges: list[QueueRange], min_count: int, max_count: int, smallest_count: int
) -> None:
    parts = share_out(ranges, min_count=min_count, max_count=max_count, smallest_count=smallest_count)

    read = Counter((each.mq, at) for part in parts for each in part for at in range(each.first_offset, each.end_offset))
    wanted = {(each.mq, at) for each in ranges for at in range(each.first_offset, each.end_offset)}
    assert read == Counter(wanted)
    sizes = [sum(each.count for each in part) for part in parts]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert all(each.count > 0 for part in parts for each in part)
    if wanted:
        assert min(min_count, len(wanted)) <= len(parts) <= max(min_count, max_count)


def test_small_queues_are_read_together_and_large_ones_by_several() -> None:
    small = share_out([_range(number, 0, 100) for number in range(100)], min_count=1, max_count=8)
    large = share_out([_range(0, 0, 100_000)], min_count=1, max_count=8)
    assert [len(part) for part in small] == [100]
    assert [(part[0].first_offset, part[0].end_offset) for part in large] == [
        (at, at + 12_500) for at in range(0, 100_000, 12_500)
    ]


def test_there_are_as_many_parts_as_are_worth_it_between_the_bounds() -> None:
    def count(messages: int, min_count: int = 1, max_count: int = 8) -> int:
        return len(share_out([_range(0, 7, messages)], min_count=min_count, max_count=max_count))

    assert [count(messages) for messages in (1, 10_000, 10_001, 80_000, 10**9)] == [1, 1, 2, 8, 8]
    assert (count(5, min_count=3), count(2, min_count=3), count(0, min_count=3)) == (3, 2, 0)
    # Who asks for more gets more.
    assert count(100, min_count=20, max_count=8) == 20


_OFFSETS = st.dictionaries(st.integers(0, 6).map(_queue), st.integers(0, 100))


@given(_OFFSETS, _OFFSETS, st.integers(1, 200))
def test_a_limit_admits_exactly_so_many_while_so_many_wait(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int], max_count: int
) -> None:
    end = admit(start, latest, max_count)

    assert end.keys() == latest.keys()
    taken = {mq: end[mq] - start.get(mq, latest[mq]) for mq in end}
    waiting = {mq: max(0, latest[mq] - start.get(mq, latest[mq])) for mq in latest}
    assert all(0 <= taken[mq] <= waiting[mq] for mq in taken)
    assert sum(taken.values()) == min(max_count, sum(waiting.values()))


def test_each_queue_gets_its_share_of_a_limit() -> None:
    start = {_queue(0): 0, _queue(1): 100, _queue(2): 5}
    latest = {_queue(0): 300, _queue(1): 200, _queue(2): 5}
    assert admit(start, latest, 40) == {_queue(0): 30, _queue(1): 110, _queue(2): 5}


def test_a_limit_of_one_comes_to_an_end() -> None:
    start = {_queue(number): 0 for number in range(3)}
    latest = {_queue(number): 2 for number in range(3)}
    batches = 0
    while start != latest:
        start = admit(start, latest, 1)
        batches += 1
    assert batches == 6


@given(_OFFSETS)
def test_offsets_come_back_from_a_checkpoint(offsets: dict[MessageQueue, int]) -> None:
    text = json.dumps(offsets_as_json(offsets))
    assert offsets_of_json(json.loads(text)) == offsets
    # Spark compares texts.
    assert json.dumps(offsets_as_json(dict(reversed(offsets.items())))) == text


def test_broker_names_with_colons_come_back() -> None:
    offsets = {MessageQueue("Orders", "zone:1:broker", 3): 9}
    assert offsets_as_json(offsets) == {"Orders": {"zone:1:broker:3": 9}}
    assert offsets_of_json(offsets_as_json(offsets)) == offsets


@pytest.mark.parametrize("count", [1, 3])
def test_parts_keep_the_order_of_queues(count: int) -> None:
    parts = share_out([_range(number, 0, 30) for number in (2, 0, 1)], min_count=count, max_count=count)
    assert [each.mq.queue_id for part in parts for each in part] == [2, 0, 1]
