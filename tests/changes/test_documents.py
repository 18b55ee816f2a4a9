"""Plans and receipts as JSON: back as they were, no edit unnoticed, and no file brings the reader down."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rmqctl.changes.documents.decode import parse_plan, parse_receipt
from rmqctl.changes.documents.encode import plan_document, receipt_document, sum_of
from rmqctl.errors import UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.plan import (
    AwaitedWrite,
    CleanStep,
    ConfigItem,
    Consequence,
    Operation,
    Plan,
    PlanItem,
    ReturnedMessage,
    Route,
    is_config_change,
    subject_kind,
)
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, ReceiptItem, Result
from tests.schemas import check_document

_NAMES = st.text(max_size=6) | st.sampled_from(["T", "broker-a", "%RETRY%G", "\x1b[31m", "\ud800", "ä", "a b"])
_NUMBERS = st.integers(0, 2**63 - 1)
_OFFSETS = st.none() | _NUMBERS
_QUEUES = st.builds(MessageQueue, _NAMES, _NAMES, st.integers(0, 2**31 - 1))
_REASONS = st.dictionaries(st.sampled_from(["before", "lost", "firstStoreTimestamp"]), _NAMES, max_size=3)
_PERMITS, _PERMITS_NOT = ({"brokerPermission": 6, "h:1": each} for each in ("read-write", "read-only"))
_CONFIGS = st.none() | st.dictionaries(_NAMES, st.none() | st.booleans() | st.integers(-5, 5) | _NAMES, max_size=3)
# Popped messages are acknowledged by their handles, which stand in an item's messages.
_ROUTES = [route for route in Route if route is not Route.POP_ACK]
_CONFIG_ROUTES = (Route.GROUP_CONFIG, Route.TOPIC_CONFIG, Route.UNSEEN)
_PLAN_ITEMS = st.builds(
    PlanItem, _QUEUES, _OFFSETS, _OFFSETS, st.sampled_from(_ROUTES), _OFFSETS, _OFFSETS, _OFFSETS, _OFFSETS, _OFFSETS,
    _OFFSETS, _NAMES, _REASONS, awaits=st.none() | st.builds(AwaitedWrite, _NAMES, _OFFSETS),
)  # fmt: skip


def _known(document: Any) -> Any:
    """Return a plan or receipt with each place once, at brokers that it names, of one group or one topic."""
    items = tuple({item.mq: item for item in document.items}.values())
    has_configs = is_config_change(document.operation)
    configs = tuple({item.broker_name: item for item in document.configs}.values()) if has_configs else ()
    if document.operation is Operation.DLQ_FIX_PERMISSION:  # which changes a permission, and nothing else
        topic = {"topicName": f"%DLQ%{document.group}", "readQueueNums": 1}
        items = ()
        configs = tuple(replace(item, before={**topic, "perm": 2}, target={**topic, "perm": 6}) for item in configs)
    kind = subject_kind(document.operation)
    if kind == "topic":
        items = ()
        configs = tuple(
            replace(
                item, before=_of_topic(document.topic, item.before), target=_of_topic(document.topic, item.target),
                route=Route.TOPIC_CONFIG,
            )
            for item in configs
        )  # fmt: skip
    if kind == "broker":
        name = document.broker or "broker-a"
        items = ()
        configs = tuple(
            replace(item, broker_name=name, before=_PERMITS, target=_PERMITS_NOT, route=Route.NAME_SERVER)
            for item in configs[:1]
        )
        document = replace(document, broker=name)
    document = replace(
        document,
        group=document.group if kind == "group" else "",
        topic=(document.topic or "T") if kind == "topic" else None,
        broker=document.broker if kind == "broker" else None,
    )
    names = {item.mq.broker_name for item in items} | {item.broker_name for item in configs}
    return replace(document, items=items, configs=configs, brokers={**dict.fromkeys(names, "a:1"), **document.brokers})


def _of_topic(topic: str, config: Any) -> Any:
    return None if config is None else {**config, "topicName": topic}


_PLANS = st.builds(
    Plan,
    id=_NAMES,
    operation=st.sampled_from(Operation),
    created_at_ms=_NUMBERS,
    cluster=_NAMES,
    brokers=st.dictionaries(_NAMES, _NAMES, max_size=3),
    group=_NAMES,
    topic=_NAMES,
    route=st.sampled_from(Route),
    asked=_NAMES,
    reason=st.none() | _NAMES,
    state=st.sampled_from(GroupState),
    consume_type=st.none() | _NAMES,
    message_model=st.none() | _NAMES,
    client_ids=st.lists(_NAMES, max_size=3).map(tuple),
    read_queue_counts=st.dictionaries(st.tuples(_NAMES, _NAMES), st.integers(0, 1024), max_size=3),
    items=st.lists(_PLAN_ITEMS, max_size=3).map(tuple),
    configs=st.lists(
        st.builds(
            ConfigItem,
            _NAMES,
            _CONFIGS,
            _CONFIGS,
            _NAMES,
            st.sampled_from(_CONFIG_ROUTES),
            st.none() | st.builds(AwaitedWrite, _NAMES, _CONFIGS),
        ),
        max_size=2,
    ).map(tuple),
    consequences=st.lists(st.builds(Consequence, _NAMES, _NAMES), max_size=2).map(tuple),
).map(_known)
_RESULTS = st.sampled_from(Result)
_RECEIPTS = st.builds(
    Receipt,
    id=_NAMES,
    plan_id=_NAMES,
    plan_sha256=_NAMES,
    operation=st.sampled_from(Operation),
    started_at_ms=_NUMBERS,
    ended_at_ms=_OFFSETS,
    cluster=_NAMES,
    brokers=st.dictionaries(_NAMES, _NAMES, max_size=3),
    group=_NAMES,
    topic=_NAMES,
    route=st.sampled_from(Route),
    asked=_NAMES,
    reason=st.none() | _NAMES,
    items=st.lists(
        st.builds(
            ReceiptItem, _QUEUES, _OFFSETS, _OFFSETS, st.sampled_from(Route), _RESULTS, _OFFSETS, st.booleans(),
            st.booleans(), _NAMES,
        ),
        max_size=3,
    ).map(tuple),
    configs=st.lists(
        st.builds(
            ConfigReceiptItem, _NAMES, _CONFIGS, _CONFIGS, _RESULTS, _CONFIGS, st.booleans(), _NAMES,
            st.sampled_from(_CONFIG_ROUTES),
        ),
        max_size=2,
    ).map(tuple),
).map(_known)  # fmt: skip


def a_plan(**changes: Any) -> Plan:
    """Return a small plan."""
    plan = Plan(
        id="20261121T200840-be3ab7",
        operation=Operation.OFFSET_RESET,
        created_at_ms=1_795_238_400_000,
        cluster="C@ns:1",
        brokers={"broker-a": "a:1"},
        group="G",
        route=Route.SERVER_SIDE,
        asked="--to-earliest",
        state=GroupState.ONLINE,
        client_ids=("c1",),
        read_queue_counts={("T", "broker-a"): 2},
        items=(
            PlanItem(MessageQueue("T", "broker-a", 0), 50, 20, Route.SERVER_SIDE, 10, 100, 30, 0, 0, 1_795_238_300_000),
        ),
        consequences=(Consequence("SERVER_SIDE", "Brokers store the offsets."),),
    )
    return replace(plan, **changes)


def _bytes(document: Any, **settings: Any) -> bytes:
    return json.dumps(document, **settings).encode("utf-8", "surrogatepass")


def _resummed(document: dict[str, Any]) -> bytes:
    return _bytes({**document, "sha256": sum_of(document)})


@given(_PLANS)
def test_a_plan_is_read_back_as_it_was(plan: Plan) -> None:
    document = plan_document(plan)
    assert parse_plan(_bytes(document), "p.json") == (plan, document["sha256"])


@given(_RECEIPTS)
def test_a_receipt_is_read_back_as_it_was(receipt: Receipt) -> None:
    assert parse_receipt(_bytes(receipt_document(receipt)), "r.json") == receipt


@given(_PLANS, st.sampled_from([{}, {"indent": 2}, {"sort_keys": True}, {"ensure_ascii": False}]), st.booleans())
def test_another_layout_is_the_same_plan(plan: Plan, layout: dict[str, Any], with_errors: bool) -> None:
    document = plan_document(plan)
    items = reversed(list(document.items()))
    shown = {**dict(items), **({"errors": []} if with_errors else {})}
    assert parse_plan(_bytes(shown, **layout), "p.json") == (plan, document["sha256"])


def _edits(value: Any) -> Iterator[Callable[[Any], Any]]:
    """Yield ways to change one part of a document: each leaf, each key, each element."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield lambda whole, key=key: {name: each for name, each in whole.items() if name != key}
            for edit in _edits(part):
                yield lambda whole, key=key, edit=edit: {**whole, key: edit(whole[key])}
        yield lambda whole: {**whole, "added": 1}
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield lambda whole, place=place: whole[:place] + whole[place + 1 :]
            yield lambda whole, place=place: [*whole, whole[place]]
            for edit in _edits(part):
                yield lambda whole, place=place, edit=edit: [*whole[:place], edit(whole[place]), *whole[place + 1 :]]
    elif isinstance(value, bool):
        yield lambda whole: not whole
    elif isinstance(value, int):
        yield lambda whole: whole + 1
        yield float
    elif isinstance(value, str):
        yield lambda whole: whole + " "
        yield lambda whole: whole.swapcase() + "x"
    else:
        yield lambda _: 0


def test_every_edit_is_noticed() -> None:
    document = plan_document(a_plan(reason="why"))
    edits = list(_edits(document))
    assert len(edits) > 100
    for number, edit in enumerate(edits):
        changed = edit(document)
        assert changed != document or json.dumps(changed) != json.dumps(document), number
        with pytest.raises(UsageError):
            parse_plan(_bytes(changed), "p.json")


def test_an_edit_is_called_one() -> None:
    document = plan_document(a_plan())
    document["items"][0]["target"] = 0
    with pytest.raises(UsageError) as caught:
        parse_plan(_bytes(document), "p.json")
    assert "p.json was edited" in caught.value.sentence
    assert caught.value.hint


def test_documents_are_as_their_schemas_say() -> None:
    check_document({**plan_document(a_plan()), "errors": []})
    item = ReceiptItem(MessageQueue("T", "broker-a", 0), 50, 20, Route.SERVER_SIDE, Result.UNKNOWN, None, False, True)
    receipt = Receipt(
        "r", "p", "5" * 64, Operation.OFFSET_RESET, 1, None, "C", {"broker-a": "a:1"}, "G", Route.SERVER_SIDE,
        items=(item,),
    )  # fmt: skip
    check_document({**receipt_document(receipt), "errors": []})


_HOSTILE: list[bytes] = [
    b"",
    b" ",
    b"{",
    b"null",
    b"[]",
    b"3",
    b'"Plan"',
    b"{}",
    b'{"kind":"Receipt"}',
    b'{"kind":"OffsetExport","items":[]}',
    b'{"kind":["Plan"]}',
    b'{"kind":null}',
    b'{"kind":"Plan"}',
    b'{"kind":"Plan","items":{}}',
    b"\xff\xfe\x00",
    b"\x80",
    b"\x1f\x8b\x08\x00",
    b'{"kind":"Plan"',
    b'{"kind":"Plan","x":' + b"9" * 5000 + b"}",
    b'{"kind":"Plan","x":NaN}',
    b'{"kind":"Plan","x":1e999}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    '{"kind":"Plan"}'.encode("utf-16"),
    b"topic,partition,offset\n",
    b"\x00" * 100,
]


@pytest.mark.parametrize("data", _HOSTILE, ids=lambda data: repr(data[:24]))
@pytest.mark.parametrize("parse", [parse_plan, parse_receipt], ids=["plan", "receipt"])
def test_what_is_none_is_refused_with_a_sentence(parse: Callable[[bytes, str], Any], data: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        parse(data, "f.json")
    assert caught.value.sentence.startswith("f.json ")
    assert caught.value.sentence.endswith(".")
    assert "\n" not in caught.value.sentence
    assert len(caught.value.sentence) < 300
    assert caught.value.hint


@pytest.mark.parametrize("place", ["x", "reason", "items"])
def test_no_depth_of_nesting_brings_the_reader_down(place: str) -> None:
    text = json.dumps({**plan_document(a_plan()), place: "@"})
    for depth in (*range(100, 1100, 7), 5_000):
        data = text.replace('"@"', "[" * depth + "]" * depth).encode()
        with pytest.raises(UsageError):
            parse_plan(data, "p.json")


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes(data: bytes) -> None:
    for parse in (parse_plan, parse_receipt):
        with pytest.raises(UsageError):
            parse(data, "f.json")


_WRONG: list[tuple[str, Any]] = [
    ("operation", "offset explode"),
    ("route", "MAGIC"),
    ("state", "SLEEPY"),
    ("brokers", []),
    ("brokers", {"broker-a": 1}),
    ("brokers", {"broker-a": None}),
    ("items", None),
    ("items", [1]),
    ("items", [{}]),
    ("group", 5),
    ("group", None),
    ("clientIds", "c1"),
    ("topics", [{"topic": "T"}]),
    ("consequences", [{"code": 1, "text": "x"}]),
    ("createdAtMs", "now"),
    ("createdAtMs", 1.5),
    ("apiVersion", "rmqctl/v2"),
    ("apiVersion", None),
]


@pytest.mark.parametrize(("key", "value"), _WRONG, ids=lambda value: str(value)[:20])
def test_a_right_sum_does_not_make_a_wrong_plan_right(key: str, value: Any) -> None:
    with pytest.raises(UsageError):
        parse_plan(_resummed({**plan_document(a_plan()), key: value}), "p.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"before": "50"},
        {"before": 1.5},
        {"before": True},
        {"before": {"a": 1}},
        {"target": 2**63},
        {"target": -1},
        {"target": -(2**70)},
        {"target": {"groupName": "G"}},
        {"before": 2**64},
        {"queueId": -1},
        {"queueId": 2**31},
        {"queueId": "0"},
        {"topic": 5},
        {"brokerName": None},
        # One that the plan has no address of.
        {"brokerName": "broker-z"},
        {"route": "x"},
        {"topic": None},
        {"queueId": None},
        {"reasons": {"before": 1}},
        {"reasons": []},
        {"note": None},
    ],
    ids=str,
)
def test_an_item_that_no_plan_of_ours_has_is_refused(changes: dict[str, Any]) -> None:
    document = plan_document(a_plan())
    document["items"][0] |= changes
    with pytest.raises(UsageError):
        parse_plan(_resummed(document), "p.json")


HANDLE = "7 100 60000 0 0 broker-a 0 7"


def a_popped_plan(*, route: Route = Route.POP_ACK, target: int | None = 50, handle: str | None = HANDLE) -> Plan:
    """A plan of one popped message, at offset 7 of a queue whose stored offset is 50."""
    message = ReturnedMessage(7, 4711, "key", "T", 0, handle)
    cleaning = CleanStep(7, 3, 16, () if handle == "" else (message,))
    item = PlanItem(MessageQueue("T", "broker-a", 0), 50, target, route, cleaning=cleaning)
    plan = replace(a_plan(), operation=Operation.CLEAN_EXPIRED, route=route, items=(item,))
    return replace(plan, brokers={"broker-a": "a:1"})


def test_a_popped_message_keeps_its_handle() -> None:
    plan = a_popped_plan()
    document = plan_document(plan)
    assert document["items"][0]["cleaning"]["messages"][0]["popHandle"] == HANDLE
    assert parse_plan(_bytes(document), "p.json")[0] == plan
    # Plans of older releases name none.
    pulled = a_popped_plan(route=Route.SERVER_SIDE, handle=None)
    document = plan_document(pulled)
    del document["items"][0]["cleaning"]["messages"][0]["popHandle"]
    assert parse_plan(_resummed(document), "p.json")[0] == pulled


@pytest.mark.parametrize(
    "plan",
    [
        a_popped_plan(target=51),
        a_popped_plan(target=None),
        a_popped_plan(handle=None),
        a_popped_plan(handle="x"),
        a_popped_plan(handle=""),
        a_popped_plan(route=Route.SERVER_SIDE),
        replace(a_popped_plan(), items=(PlanItem(MessageQueue("T", "broker-a", 0), 50, 50, Route.POP_ACK),)),
    ],
    ids=["moves", "taken away", "no handle", "no whole handle", "no message", "another way", "no cleaning"],
)
def test_what_can_not_be_acknowledged_is_refused(plan: Plan) -> None:
    with pytest.raises(UsageError):
        parse_plan(_bytes(plan_document(plan)), "p.json")


def test_two_items_of_one_queue_are_refused() -> None:
    document = plan_document(a_plan())
    document["items"] = [document["items"][0], {**document["items"][0], "target": 80}]
    with pytest.raises(UsageError):
        parse_plan(_resummed(document), "p.json")


@pytest.mark.parametrize("key", ["id", "operation", "cluster", "brokers", "group", "route", "items", "kind", "sha256"])
def test_a_key_that_is_missing_is_refused(key: str) -> None:
    document = plan_document(a_plan())
    del document[key]
    with pytest.raises(UsageError):
        parse_plan(_bytes(document) if key == "sha256" else _resummed(document), "p.json")


@pytest.mark.parametrize(
    "changes",
    [{"before": 2**64}, {"before": "x"}, {"queueId": -1}, {"topic": 7}, {"result": "FINE"}, {"isPending": 1}],
    ids=str,
)
def test_a_receipts_item_that_none_of_ours_has_is_refused(changes: dict[str, Any]) -> None:
    item = ReceiptItem(MessageQueue("T", "broker-a", 0), 50, 20, Route.SERVER_SIDE, Result.CONFIRMED, 20, True)
    receipt = Receipt(
        "r", "p", "5" * 64, Operation.OFFSET_RESET, 1, 2, "C", {"broker-a": "a:1"}, "G", Route.SERVER_SIDE,
        items=(item,),
    )  # fmt: skip
    document = receipt_document(receipt)
    assert parse_receipt(_bytes(document), "r.json") == receipt
    document["items"][0] |= changes
    with pytest.raises(UsageError):
        parse_receipt(_bytes(document), "r.json")
