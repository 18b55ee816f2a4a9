from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.whatif.spec import parse_spec

QUEUES = [{"topic": "T", "brokerName": "broker-a", "queueId": queue_id} for queue_id in range(2)]
ITEM: dict[str, Any] = {"queues": QUEUES, "clients": ["c1", "c2"]}


def _parse(value: Any) -> Any:
    return parse_spec(json.dumps(value).encode())


def _refused(value: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_spec(value if isinstance(value, bytes) else json.dumps(value).encode())
    assert "\n" not in caught.value.sentence
    return caught.value


def test_one_group_is_queues_and_clients() -> None:
    (item,) = _parse(ITEM)
    assert item.snapshot.queues == (MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1))
    assert item.snapshot.client_ids == ("c1", "c2")
    assert (item.strategy, item.site_of, item.snapshot.live) == (None, "-", None)
    assert (item.options.virtual_nodes, item.options.inner, item.options.configured) == (10, "averagely", None)


def test_a_list_keeps_its_order() -> None:
    items = _parse([{**ITEM, "strategy": name} for name in ("circle", "AVG", "sticky")])
    assert [item.strategy for item in items] == ["circle", "AVG", "sticky"]


def test_options_have_rocketmqs_names() -> None:
    options = {
        "virtualNodes": 3, "rooms": ["r1"], "queues": QUEUES[:1], "siteOf": {"broker-a": "east", "c1": "east"},
        "inner": "circle", "popShareQueueNum": 2, "weights": [{**QUEUES[1], "weight": 2.5}], "custom": {"any": [1]},
    }  # fmt: skip
    (item,) = _parse({**ITEM, "options": options})
    found = item.options
    first, second = item.snapshot.queues
    assert (found.virtual_nodes, found.rooms, found.configured) == (3, ("r1",), [first])
    assert (found.inner, found.share_count, found.weights, found.custom) == ("circle", 2, {second: 2.5}, {"any": [1]})
    assert item.site_of == {"broker-a": "east", "c1": "east"}
    (item,) = _parse({**ITEM, "options": {"queues": {"c1": QUEUES[1:]}}})
    assert item.options.configured == {"c1": [second]}


def test_clients_may_have_one_id_as_in_rocketmq() -> None:
    assert _parse({**ITEM, "clients": ["c1", "c1"]})[0].snapshot.client_ids == ("c1", "c1")


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"{", b"\xff\xfe", b'{"clients": ["\xff"]}', b"[" * 100_000, b'{"a":' * 100_000, b"NaN", b"{}{}",
        b"'x'",
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused_with_an_example(data: bytes) -> None:
    error = _refused(data)
    assert error.sentence.startswith("The description is not JSON (")
    assert error.hint is not None
    assert json.loads(error.hint.removeprefix("Use for example ").removesuffix("."))["clients"] == ["c1", "c2"]


@pytest.mark.parametrize("value", [None, 1, "text", True, 1.5])
def test_what_is_no_group_is_refused(value: object) -> None:
    assert _refused(value).sentence.startswith("The description is invalid: Expected `object`")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"queues": None}, "Expected `array`, got `null` - at `$.queues`"),
        ({"queues": [{"topic": "T", "brokerName": "b"}]}, "missing required field `queueId` - at `$.queues[0]`"),
        ({"queues": [{**QUEUES[0], "queueId": "0"}]}, "Expected `int`, got `str` - at `$.queues[0].queueId`"),
        ({"queues": [{**QUEUES[0], "queueId": True}]}, "Expected `int`, got `bool` - at `$.queues[0].queueId`"),
        ({"queues": [{**QUEUES[0], "queueId": 1.5}]}, "Expected `int`, got `float` - at `$.queues[0].queueId`"),
        ({"queues": [{**QUEUES[0], "broker": "b"}]}, "unknown field `broker` - at `$.queues[0]`"),
        ({"clients": "c1"}, "Expected `array`, got `str` - at `$.clients`"),
        ({"clients": ["c1", 7]}, "Expected `str`, got `int` - at `$.clients[1]`"),
        ({"strategy": 1}, "at `$.strategy`"),
        ({"stratgy": "circle"}, "unknown field `stratgy`"),
        ({"options": {"virtualnodes": 1}}, "unknown field `virtualnodes` - at `$.options`"),
        ({"options": {"rooms": "r1"}}, "Expected `array`, got `str` - at `$.options.rooms`"),
        ({"options": {"siteOf": 1}}, "at `$.options.siteOf`"),
        ({"options": {"weights": [QUEUES[0]]}}, "missing required field `weight`"),
    ],
)
def test_a_wrong_part_is_named(wrong: dict[str, Any], said: str) -> None:
    sentence = _refused({**ITEM, **wrong}).sentence
    assert sentence.startswith("The description is invalid: ")
    assert said in sentence


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"queues": []}, "has no queues."),
        ({"clients": []}, "has no clients."),
        ({"clients": ["c1", ""]}, "has a client without an id."),
        ({"queues": [*QUEUES, QUEUES[0]]}, "has queue T@broker-a:0 twice."),
        ({"options": {"weights": [{**QUEUES[0], "queueId": 9, "weight": 1}]}}, "gives a weight to T@broker-a:9, which"),
        ({"options": {"weights": [{**QUEUES[0], "weight": 1}] * 2}}, "gives a weight to T@broker-a:0 twice."),
    ],
)
def test_what_makes_no_group_is_refused_with_its_number(wrong: dict[str, Any], sentence: str) -> None:
    assert _refused({**ITEM, **wrong}).sentence.startswith(f"The description {sentence}")
    # One bad item fails the whole.
    assert _refused([ITEM, {**ITEM, **wrong}, ITEM]).sentence.startswith(f"Group 2 {sentence}")


@pytest.mark.parametrize(
    "wrong", [{"queueId": -1}, {"queueId": 2**31}, {"queueId": 10**40}, {"topic": ""}, {"brokerName": ""}]
)
def test_what_is_no_queue_is_refused(wrong: dict[str, Any]) -> None:
    sentence = _refused({**ITEM, "queues": [{**QUEUES[0], **wrong}]}).sentence
    assert sentence.endswith("it needs a topic, a broker and an id from 0.") or "at `$.queues" in sentence


def test_a_byte_order_mark_is_no_part_of_it() -> None:
    (item,) = parse_spec(b"\xef\xbb\xbf" + json.dumps(ITEM).encode())
    assert len(item.snapshot.queues) == len(QUEUES)


def test_an_empty_list_names_no_group() -> None:
    assert _refused([]).sentence == "The description contains no group."


def test_a_wrong_item_of_a_list_is_named() -> None:
    assert _refused([ITEM, 5]).sentence == "Group 2 is invalid: Expected `object`, got `int`."
    assert _refused([ITEM, [ITEM]]).sentence == "Group 2 is invalid: Expected `object`, got `array`."
