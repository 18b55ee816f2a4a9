from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.changes.offsets.files import OffsetEntry, OffsetFile, parse_offsets
from rmqctl.changes.offsets.given_offsets import resolve_brokers
from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue

_MOST = (1 << 63) - 1
Place = tuple[str, str | None, int, int | None]


def _places(file: OffsetFile) -> list[Place]:
    return [(entry.topic, entry.broker_name, entry.queue_id, entry.offset) for entry in file.entries]


def _lines(file: OffsetFile) -> list[int | None]:
    return [entry.line for entry in file.entries]


def _refused(data: bytes | str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_offsets(data if isinstance(data, bytes) else data.encode())
    assert "\n" not in caught.value.sentence
    assert caught.value.sentence.endswith(".")
    return caught.value


def _item(**changed: Any) -> dict[str, Any]:
    item = {"topic": "T", "brokerName": "broker-a", "queueId": 0, "consumerOffset": 5, "reasons": {}}
    return item | changed


def _json(*items: dict[str, Any], **changed: Any) -> bytes:
    document = {"apiVersion": "rmqctl/v1", "kind": "OffsetExport", "group": "G", "items": items, "errors": []}
    return json.dumps(document | changed, indent=2).encode()


# Kafka's CSV


def test_kafkas_csv_of_one_group() -> None:
    # As ConsumerGroupCommand prints it: names beyond letters in quotes, an empty line at the end.
    file = parse_offsets(b'orders,0,5\n"%RETRY%G",0,7\n"a-topic-with-a-long-name-in-it",12,0\n\n')
    assert file.group is None
    assert _places(file) == [
        ("orders", None, 0, 5),
        ("%RETRY%G", None, 0, 7),
        ("a-topic-with-a-long-name-in-it", None, 12, 0),
    ]
    assert _lines(file) == [1, 2, 3]


def test_kafkas_csv_with_a_group_needs_a_heading() -> None:
    file = parse_offsets(b'group,topic,partition,offset\nG,orders,0,5\n"G","orders","1","6"\n')
    assert file == OffsetFile("G", (OffsetEntry("orders", None, 0, 5, 2), OffsetEntry("orders", None, 1, 6, 3)))
    error = _refused("G,orders,0,5\n")
    assert "Line 1 has 4 columns" in error.sentence
    assert "group,topic,partition,offset" in (error.hint or "")


@pytest.mark.parametrize("header", ["topic,partition,offset", '"Topic", PARTITION ,"offset"'])
def test_a_header_is_no_data(header: str) -> None:
    file = parse_offsets(f"{header}\norders,0,5\n".encode())
    assert (_places(file), _lines(file)) == ([("orders", None, 0, 5)], [2])


def test_a_partition_may_stand_with_its_broker() -> None:
    file = parse_offsets(b'orders,broker-a:3,5\norders,"10.0.0.1:10911:2",6\norders,4,7\n')
    assert _places(file) == [("orders", "broker-a", 3, 5), ("orders", "10.0.0.1:10911", 2, 6), ("orders", None, 4, 7)]


def test_bom_crlf_blank_lines_and_a_missing_last_line_end_are_fine() -> None:
    file = parse_offsets(b"\xef\xbb\xbf\r\norders,0,5\r\n  \r\n\r\norders, 1 , 6")
    assert (_places(file), _lines(file)) == ([("orders", None, 0, 5), ("orders", None, 1, 6)], [2, 5])


def test_lines_are_counted_over_quoted_line_ends() -> None:
    assert _lines(parse_offsets(b'"a\nb",0,5\nc,0,6\n')) == [1, 3]
    assert _refused('"a\nb",0,5\nc,0,x\n').sentence.startswith("Line 3: ")


# Our CSV, and that of offset show


def test_our_csv() -> None:
    file = parse_offsets(
        b"topic,brokerName,queueId,offset\norders,broker-a,0,5\norders,broker-b,0,9223372036854775807\n"
    )
    assert file.group is None
    assert _places(file) == [("orders", "broker-a", 0, 5), ("orders", "broker-b", 0, (1 << 63) - 1)]


def test_columns_are_found_by_their_heading() -> None:
    data = b"group,topic,brokerName,queueId,minOffset,maxOffset,consumerOffset,lag\nG,orders,broker-a,0,1,9,5,4\n"
    file = parse_offsets(data)
    assert (file.group, _places(file)) == ("G", [("orders", "broker-a", 0, 5)])


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("topic,offset", "Line 1 has no column for the queue."),
        ("topic,queueId,maxOffset", "Line 1 has no column for the offset."),
        ("partition,offset", "Line 1 has no column for the topic."),
        ("topic,partition,queueId,offset", "Line 1 has two columns for the queue: partition and queueId."),
        (
            "topic,queueId,offset, consumerOffset",
            "Line 1 has two columns for the offset: offset and consumerOffset.",
        ),
        ("topic,partition,Offset,OFFSET", "Line 1 has two columns for the offset: Offset and OFFSET."),
        ("topic,broker,queueId,offset", "'broker'"),
        ("topic,queueId,offset,", "Line 1: unknown heading ''"),
        (f"topic,{'x' * 50},offset", f"'{'x' * 40}...'"),
    ],
)  # fmt: skip
def test_a_heading_that_leaves_a_column_open_is_refused(header: str, sentence: str) -> None:
    assert sentence in _refused(f"{header}\n").sentence


def test_our_csv_without_its_header_is_not_taken_for_another() -> None:
    # Kafka's with a group has as many columns.
    assert "Line 1 has 4 columns" in _refused("orders,broker-a,0,5\n").sentence


# rpk's text


def test_rpks_text() -> None:
    file = parse_offsets(b"orders 0 5\n\norders\t1\t6\n%RETRY%G broker-a:0  7\n")
    assert file.group is None
    assert _places(file) == [("orders", None, 0, 5), ("orders", None, 1, 6), ("%RETRY%G", "broker-a", 0, 7)]
    assert _lines(file) == [1, 3, 4]


# JSON


def test_an_export() -> None:
    file = parse_offsets(
        _json(_item(), _item(queueId=1, consumerOffset=None, reasons={"consumerOffset": "NEVER_COMMITTED"}))
    )
    assert file.group == "G"
    assert file.entries == (OffsetEntry("T", "broker-a", 0, 5, None), OffsetEntry("T", "broker-a", 1, None, None))


def test_what_offset_show_prints() -> None:
    items = [_item(group="G", lag=3, clientIds=["c"], lastTimestampIso=None), _item(group="G", queueId=1)]
    file = parse_offsets(_json(*items, kind="OffsetList", summaries=[], summary=None))
    assert (file.group, len(file.entries)) == ("G", 2)


def test_json_may_have_a_bom_and_stand_in_one_line() -> None:
    assert parse_offsets(b"\xef\xbb\xbf " + _json(_item()).replace(b"\n", b"")).group == "G"


def test_an_offset_that_was_not_read_is_not_taken_for_none() -> None:
    file = parse_offsets(
        _json(_item(), _item(queueId=1, consumerOffset=None, reasons={"consumerOffset": "BROKER_UNREACHABLE"}))
    )
    assert [entry.unread for entry in file.entries] == [None, "not read when the file was made (BROKER_UNREACHABLE)"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (_json(_item())[:-30], "The JSON is cut off after line 11."),
        (b'{"apiVersion":\n"rmqctl/v1",\n"kind": oops}', "Line 3 is not"),
        (_json(_item()) + b"\n{}", "Line 16 is not"),
        (b"[]", "Expected object, got array."),
        (b"{}", "The JSON has kind '', not OffsetExport or OffsetList."),
        (_json(kind="Plan"), "The JSON has kind 'Plan', not OffsetExport or OffsetList."),
        (_json(apiVersion="rmqctl/v2"), "rmqctl/v2"),
        (_json(), "name a queue"),
        (_json(_item(), _item(queueId="1")), "Expected int, got str, item 2.queueId."),
        (
            _json(_item(consumerOffset=5.0)),
            "Expected int | null, got float, item 1.consumerOffset.",
        ),
        (_json(_item(queueId=True)), "Expected int, got bool, item 1.queueId."),
        (_json({"topic": "T"}), "Object missing required field brokerName, item 1."),
        (_json(_item(consumerOffset=-1)), "Item 1: offset -1 is negative."),
        (_json(_item(consumerOffset=1 << 63)), f"Item 1: offset {1 << 63} is more than RocketMQ's maximum ({_MOST})."),
        (_json(_item(queueId=1 << 31)), f"Item 1: queue {1 << 31} is more than RocketMQ's maximum ({(1 << 31) - 1})."),
        (_json(_item(topic="")), "Item 1 has no topic"),
        (_json(_item(brokerName="")), "Item 1 has no broker"),
        (_json(_item(), _item()), "Item 2 has T@broker-a:0 a second time, after item 1."),
        (
            _json(_item(group="A"), _item(group="B", queueId=1), group=None, kind="OffsetList"),
            "Item 2 is of group B, ",
        ),
        (_json(_item(group="B")), "Item 1 is of group B, "),
        (b'{"a":' * 100_000, "The file is not"),
    ],
)
def test_json_that_is_wrong(data: bytes, sentence: str) -> None:
    assert sentence in _refused(data).sentence


# What is wrong in lines

_WITH_GROUP = "group,topic,partition,offset\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The file is empty."),
        (" \r\n\n", "The file is empty."),
        ("topic,partition,offset\n", "name a queue"),
        ('""', "name a queue"),
        ("orders,0\n", "Line 1 has 2 columns"),
        ("orders\n", "Line 1 has 1 column, not TOPIC PARTITION OFFSET."),
        ("G orders 0 5\n", "Line 1 has 4 columns, not TOPIC PARTITION OFFSET."),
        ("topic brokerName queueId offset\norders b 0 5\n", "Line 1 has 4 columns, not TOPIC PARTITION OFFSET."),
        ("orders,0,5\nG,orders,1,5\n", "Line 2 has 4 columns, line 1 has 3."),
        ("orders 0 5\norders 1\n", "Line 2 has 2 columns, not TOPIC PARTITION OFFSET."),
        ("orders,0,5\norders,1,1,000\n", "Line 2 has 4 columns, line 1 has 3."),
        ("orders,0,five\n", "Line 1: invalid offset 'five'"),
        ("orders,0,\n", "Line 1: invalid offset ''"),
        ("orders,zero,5\n", "Line 1: invalid queue 'zero'"),
        ("orders,broker-a:,5\n", "Line 1: invalid queue ''"),
        ("orders,:0,5\n", "Line 1 has no broker"),
        ("orders,0,5.0\n", "Line 1: invalid offset '5.0'"),
        ("orders,0,1e3\n", "Line 1: invalid offset '1e3'"),
        ("orders,0,1_000\n", "Line 1: invalid offset '1_000'"),
        ("orders,0,+5\n", "Line 1: invalid offset '+5'"),
        ("orders,0,\u0665\n", "Line 1: invalid offset '\u0665'"),
        ("orders,0,-1\n", "Line 1: offset -1 is negative."),
        ("orders,-1,5\n", "Line 1: queue -1 is negative."),
        ("orders,0,9223372036854775808\n", f"Line 1: offset {1 << 63} is more than RocketMQ's maximum ({_MOST})."),
        ("orders,2147483648,5\n", f"Line 1: queue {1 << 31} is more than RocketMQ's maximum ({(1 << 31) - 1})."),
        (f"orders,0,{'9' * 5000}\n", f"Line 1: offset {'9' * 40}... has too many digits."),
        (f"orders,0,{'x' * 5000}\n", f"Line 1: invalid offset '{'x' * 40}...'"),
        (",0,5\n", "Line 1 has no topic"),
        (f"{_WITH_GROUP},orders,0,5\n", "Line 2 has no group"),
        (f"{_WITH_GROUP}A,orders,0,5\nB,orders,1,5\n", "Line 3 is of group B, "),
        ("orders,0,5\nother,0,5\norders,0,6\n", "Line 3 has queue 0 of orders a second time, after line 1."),
        ("orders b:0 5\norders b:00 5\n", "Line 2 has orders@b:0 a second time, after line 1."),
        ('a,0,5\n"orders,0,5\nx,0,5\n', "unexpected end of data"),
        ('"orders"x,0,5\n', "Line 1 is not valid CSV: ',' expected after '\"'."),
        (f'a,0,5\n"{"x" * 200_000}",0,5\n', "field larger than field limit (131072)"),
    ],
)
def test_lines_that_are_wrong(text: str, sentence: str) -> None:
    assert sentence in _refused(text).sentence


def test_what_is_no_utf8_is_refused_with_its_line() -> None:
    assert _refused(b"orders,0,5\nord\xffers,1,5\n").sentence == "Line 2 is not UTF-8."
    assert _refused("orders,0,5\n".encode("utf-16")).sentence == "Line 1 is not UTF-8."


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        file = parse_offsets(data)
    except UsageError:
        return
    assert file.entries


@settings(max_examples=2000)
@given(st.text(alphabet='{}[]",:\n\r\t -019aGT', max_size=60))
def test_any_text_is_read_or_refused_and_no_queue_comes_twice(text: str) -> None:
    try:
        file = parse_offsets(text.encode())
    except UsageError:
        return
    keys = [(entry.topic, entry.broker_name, entry.queue_id) for entry in file.entries]
    assert len(set(keys)) == len(keys) > 0


def test_a_long_file_is_read() -> None:
    data = b"".join(b"orders-%d,broker-a:%d,%d\n" % (i // 1000, i % 1000, i) for i in range(250_000))
    # It takes 2 s where nothing else runs; each line compared with each would take longer than a test may.
    file = parse_offsets(data)
    queues = resolve_brokers(file.entries, {(f"orders-{i}", "broker-a"): 1000 for i in range(250)})
    assert (len(file.entries), file.entries[-1].line) == (250_000, 250_000)
    assert queues[MessageQueue("orders-249", "broker-a", 999)].offset == 249_999


# Brokers

_COUNTS = {("orders", "broker-a"): 4, ("orders", "broker-b"): 4, ("lone", "broker-b"): 2, ("shut", "broker-a"): 0}


def _resolve(text: str) -> list[tuple[MessageQueue, int | None]]:
    resolved = resolve_brokers(parse_offsets(text.encode()).entries, _COUNTS)
    return [(mq, entry.offset) for mq, entry in resolved.items()]


def test_a_bare_partition_is_settled_where_the_topic_has_one_broker() -> None:
    assert _resolve("lone 1 5\norders broker-a:3 6\n") == [
        (MessageQueue("lone", "broker-b", 1), 5),
        (MessageQueue("orders", "broker-a", 3), 6),
    ]


def test_an_offset_of_none_stays_none() -> None:
    file = parse_offsets(_json(_item(topic="lone", brokerName="broker-b", consumerOffset=None)))
    (entry,) = resolve_brokers(file.entries, _COUNTS).values()
    assert (entry.offset, entry.unread) == (None, None)


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        (
            "lone 1 5\norders 2 5\n",
            "Topic orders is on broker-a and broker-b: queue 2 is ambiguous (line 2).",
            "Add the broker: broker-a:2 instead of 2.",
        ),
        ("lone 2 5\n", "Topic lone has no queue broker-b:2 (line 1).", "It has broker-b:0-1."),
        (
            "\norders broker-a:4 5\n",
            "Topic orders has no queue broker-a:4 (line 2).",
            "It has broker-a:0-3 and broker-b:0-3.",
        ),
        ("lone broker-a:0 5\n", "Topic lone has no queue broker-a:0 (line 1).", "It has broker-b:0-1."),
        ("nope 0 5\n", "Topic nope has no readable queues (line 1).", None),
        ("shut 0 5\n", "Topic shut has no readable queues (line 1).", None),
        ("lone 1 5\nlone 0 5\nlone broker-b:1 6\n", "lone@broker-b:1 is named twice (lines 1 and 3).", None),
    ],
)
def test_queues_that_are_not_there_are_refused(text: str, sentence: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        _resolve(text)
    assert (caught.value.sentence, caught.value.hint) == (sentence, hint)


def test_a_queue_of_json_has_no_line() -> None:
    file = parse_offsets(_json(_item(topic="lone", queueId=7)))
    with pytest.raises(UsageError, match=r"^Topic lone has no queue broker-a:7\.$"):
        resolve_brokers(file.entries, _COUNTS)
