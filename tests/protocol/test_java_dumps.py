from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import ObjectMap, loads
from tests.protocol.golden import Exchange, answer, answers

QUEUE = MessageQueue("T", "broker-a", 3)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
LEAVES = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), TEXTS)
QUEUES = st.builds(MessageQueue, TEXTS, TEXTS, st.integers(-1, 99))


def test_maps_keyed_by_queues_have_raw_objects_as_keys() -> None:
    written = dumps({"offsetTable": {QUEUE: {"maxOffset": 4}}})
    assert written == b'{"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"T"}:{"maxOffset":4}}}'


def test_numbers_are_bare_keys_and_none_is_left_out() -> None:
    assert dumps({"b": None, "a": {10: 1, 2: 0}}) == b'{"a":{2:0,10:1}}'


def test_sets_and_tuples_are_lists() -> None:
    assert dumps([{"b", "a"}, (1, 2), QUEUE, frozenset()]) == (
        b'[["a","b"],[1,2],{"brokerName":"broker-a","queueId":3,"topic":"T"},[]]'
    )


@given(st.dictionaries(TEXTS, st.one_of(LEAVES, st.lists(LEAVES, max_size=3)), max_size=4))
def test_plain_json_reads_back(value: dict[str, Any]) -> None:
    assert loads(dumps(value)) == value


@given(st.dictionaries(QUEUES, LEAVES, min_size=1, max_size=4))
def test_maps_of_queues_read_back(value: dict[MessageQueue, Any]) -> None:
    read = loads(dumps({"table": value}))["table"]
    assert isinstance(read, ObjectMap)
    assert {MessageQueue(key["topic"], key["brokerName"], key["queueId"]): item for key, item in read} == value


@pytest.mark.parametrize("exchange", answers(106, 208, 202), ids=str)
def test_recorded_bodies_read_back(exchange: Exchange) -> None:
    recorded = _keyed(loads(answer(exchange).body))
    assert _keyed(loads(dumps(recorded))) == recorded


def _keyed(value: Any) -> Any:
    """Return parsed JSON with queues as keys again, as the sandbox has them."""
    if isinstance(value, ObjectMap):
        return {MessageQueue(key["topic"], key["brokerName"], key["queueId"]): _keyed(item) for key, item in value}
    if isinstance(value, dict):
        return {key: _keyed(item) for key, item in value.items()}
    return value
