"""format("rocketmq"), batch: every column, and what options choose."""

from __future__ import annotations

import re
import zlib

import pytest
from pyspark.errors import PySparkException

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.sandbox.sender import BORN_MS
from tests.spark.conftest import Read
from tests.spark.smoke.smoke_data import create_topic, leave, put

_PLACED = "SmokePlaced"


def test_a_message_is_read_as_it_was_sent(sandbox: ThreadedSandbox, read: Read) -> None:
    create_topic(sandbox, "SmokeSeen")
    now_ms = sandbox.call(lambda inner: inner.clock.now_ms())
    tagged = put(sandbox, "SmokeSeen", "broker-a:0", ["a0", "grüße"], TAGS="Red", KEYS="k1 k2", UNIQ_KEY="u1", size="9")
    plain = put(sandbox, "SmokeSeen", "broker-b:1", ["b0"], UNIQ_KEY="u2")
    rows = {row.body.decode(): row for row in read("SmokeSeen", minPartitions=3).collect()}

    assert rows.keys() == {"a0", "grüße", "b0"}
    for sent in (*tagged, *plain):
        row = rows[sent.body].asDict()
        is_tagged = sent in tagged
        assert re.fullmatch(r"127\.0\.0\.1:\d+", row.pop("born_host"))
        # A record's fixed fields are 91 bytes; texts follow.
        properties = row.pop("properties")
        size = row.pop("store_size_bytes")
        assert size == 91 + len(sent.body.encode()) + len("SmokeSeen") + len(
            "".join(f"{name}-{value}-" for name, value in properties.items())
        )
        assert properties == {
            **({"TAGS": "Red", "KEYS": "k1 k2", "size": "9"} if is_tagged else {}),
            "UNIQ_KEY": "u1" if is_tagged else "u2", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }  # fmt: skip
        assert {name: row.pop(name).timestamp() * 1000 for name in ("born_ts", "store_ts")} == {
            "born_ts": BORN_MS, "store_ts": now_ms,
        }  # fmt: skip
        assert row == {
            "topic": "SmokeSeen",
            "broker_name": sent.broker_name,
            "queue_id": sent.queue_id,
            "queue_offset": sent.queue_offset,
            "commit_log_offset": sent.commit_log_offset,
            "msg_id": sent.msg_id,
            "uniq_key": "u1" if is_tagged else "u2",
            "keys": "k1 k2" if is_tagged else None,
            "tags": "Red" if is_tagged else None,
            "body": bytearray(sent.body.encode()),
            "store_host": sandbox.brokers[sent.broker_name],
            "reconsume_times": 0,
            "sys_flag": 0,
            "flag": 0,
            "body_crc": zlib.crc32(sent.body.encode()) & 0x7FFFFFFF,
        }
    assert [sent.queue_offset for sent in tagged] == [0, 1]


@pytest.fixture(scope="module")
def placed(sandbox: ThreadedSandbox) -> int:
    """Put the messages a0 to a5 and b0 to b5 into a queue of each broker; the later three of each 10 s later.

    Return a time in between.
    """
    create_topic(sandbox, _PLACED, queue_count=1)
    for broker in "ab":
        # The first two have one hash, by which brokers select.
        for number, tag in enumerate(("Aa", "BB", "C")):
            put(sandbox, _PLACED, f"broker-{broker}:0", [f"{broker}{number}"], TAGS=tag, number=number)
    between_ms = sandbox.call(lambda inner: inner.clock.now_ms()) + 5_000
    sandbox.advance(10)
    for broker in "ab":
        for number, tag in enumerate(("Aa", "BB", "C"), 3):
            put(sandbox, _PLACED, f"broker-{broker}:0", [f"{broker}{number}"], TAGS=tag, number=number)
    leave(sandbox, "SmokePlacedGroup", _PLACED, {"broker-a:0": 2, "broker-b:0": 5})
    return between_ms


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "a0 a1 a2 a3 a4 a5 b0 b1 b2 b3 b4 b5"),
        ({"tags": "Aa || C"}, "a0 a2 a3 a5 b0 b2 b3 b5"),
        ({"startingOffsets": "BETWEEN"}, "a3 a4 a5 b3 b4 b5"),
        ({"endingOffsets": "BETWEEN", "tags": "BB"}, "a1 b1"),
        (
            {
                "startingOffsets": '{"SmokePlaced": {"broker-a:0": 4, "broker-b:0": -2}}',
                "endingOffsets": '{"SmokePlaced": {"broker-a:0": -1, "broker-b:0": 2}}',
            },
            "a4 a5 b0 b1",
        ),
        ({"startingOffsets": "group", "consumerGroup": "SmokePlacedGroup", "minPartitions": "5"}, "a2 a3 a4 a5 b5"),
    ],
    ids=["all", "tags", "since", "until-and-tag", "offsets", "group"],
)
def test_options_choose_rows(read: Read, placed: int, options: dict[str, str], wanted: str) -> None:
    given = {name: value.replace("BETWEEN", str(placed)) for name, value in options.items()}
    rows = read(_PLACED, schema="body binary, queue_offset bigint, broker_name string", **given).collect()
    assert sorted((row.body.decode(), row.broker_name, row.queue_offset) for row in rows) == [
        (body, f"broker-{body[0]}", int(body[1])) for body in wanted.split()
    ]


def test_mistakes_are_told(read: Read, placed: int) -> None:
    for topic, options, sentence in (
        ("SmokePlacet", {}, r"Topic SmokePlacet does not exist\.\nDid you mean SmokePlaced"),
        (_PLACED, {"startingOffsets": '{"SmokePlaced": {"broker-a:0": 7}}'}, "Cannot read 1 offset: SmokePlaced@b"),
        (_PLACED, {"tag": "Aa"}, "Unknown option 'tag' for format 'rocketmq'"),
    ):
        with pytest.raises(PySparkException, match=sentence):
            read(topic, **options).collect()
