from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, QueueData, TopicRoute
from rmqctl.model.topic import StaticMapping
from rmqctl.rules.send_queues import next_queue, queue_of_key, split_batches, writable_queues


def _data(name: str, write: int = 2, *, is_writable: bool = True) -> QueueData:
    return QueueData(name, 4, write, True, is_writable)


def _route(*data: QueueData, **fields: object) -> TopicRoute:
    brokers = tuple(BrokerData("C", each.broker_name, {0: f"{each.broker_name}:1"}) for each in data)
    return replace(TopicRoute("T", data, brokers), **fields)  # type: ignore[arg-type]


def _names(queues: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{mq.broker_name}{mq.queue_id}" for mq in queues]


def test_queues_that_can_be_written_to_in_order() -> None:
    assert _names(writable_queues(_route(_data("b"), _data("a", 3)))) == ["a0", "a1", "a2", "b0", "b1"]
    assert _names(writable_queues(_route(_data("a", is_writable=False), _data("b")))) == ["b0", "b1"]


def test_a_broker_without_a_master_takes_nothing() -> None:
    brokers = (BrokerData("C", "a", {1: "a:1"}), BrokerData("C", "b", {0: "b:1"}))
    assert _names(writable_queues(_route(_data("a"), _data("b"), brokers=brokers))) == ["b0", "b1"]


def test_the_queues_of_an_ordered_topic_are_what_the_name_server_says() -> None:
    assert _names(writable_queues(_route(_data("a"), order_conf="b:1;a:2"))) == ["b0", "a0", "a1"]
    assert writable_queues(_route(_data("a"), order_conf="a:x;:3;;")) == ()


def test_the_queues_of_a_static_topic_are_its_logical_ones() -> None:
    mappings = (StaticMapping("a", 4, 1, {0: 0, 3: 1}), StaticMapping("b", 4, 1, {1: 0, 2: 1}))
    route = _route(_data("a"), _data("b"), is_static=True, mappings=mappings)
    assert _names(writable_queues(route)) == ["a0", "a3", "b1", "b2"]


QUEUES = writable_queues(_route(_data("a"), _data("b")))


def test_every_queue_has_its_turn() -> None:
    turn, seen = 7, []
    for _ in range(8):
        mq, turn = next_queue(QUEUES, turn)
        seen.append(mq)
    assert seen == [QUEUES[number % 4] for number in range(7, 15)]


def test_a_broker_that_failed_is_gone_round_unless_it_is_the_only_one() -> None:
    assert next_queue(QUEUES, 0, avoided_broker="a") == (QUEUES[2], 3)
    assert next_queue(QUEUES, 2, avoided_broker="a") == (QUEUES[2], 3)
    assert next_queue(QUEUES[:2], 1, avoided_broker="a") == (QUEUES[1], 2)


sizes = st.lists(st.integers(1, 12), max_size=40)


@given(sizes, st.integers(1, 20), st.integers(1, 6))
def test_batches_hold_everything_once_in_order_and_no_more_than_they_may(
    given: list[int], max_bytes: int, max_count: int
) -> None:
    parts = [given[part] for part in split_batches(given, max_bytes=max_bytes, max_count=max_count)]
    assert [size for part in parts for size in part] == given
    for part in parts:
        assert 1 <= len(part) <= max_count
        assert sum(part) <= max_bytes or len(part) == 1
    for first, second in pairwise(parts):
        # None was ended before it was full.
        assert len(first) == max_count or sum(first) + second[0] > max_bytes


def test_the_queue_of_a_sharding_key_is_that_of_javas_producer() -> None:
    """Hashes of String.hashCode; the last one is Integer.MIN_VALUE."""
    codes = {"": 0, "a": 97, "order-1": -1207111310, "Schlüssel": -2110983409, "polygenelubricants": -(2**31)}
    queues = writable_queues(_route(_data("a", 3), _data("b", 2)))
    for key, code in codes.items():
        assert queue_of_key(queues, key) == queues[abs(code) % 5], key
