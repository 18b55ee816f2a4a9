"""What the sink makes of rows, in a task and without a session: queues, keys, delays, refusals, retries."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rmqctl.client.access import Access
from rmqctl.errors import UnreachableError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.net.clock import SystemClock
from rmqctl.pipeline.source import sink
from rmqctl.pipeline.source.options import read_sink_options
from rmqctl.pipeline.source.sink import MessageWriter
from rmqctl.pipeline.source.task_access import task_access
from rmqctl.protocol.properties import SHARDING_KEY
from rmqctl.rules.send_queues import queue_of_key
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.spark.smoke.smoke_data import BROKERS, PATIENT, create_topic, read_all, read_queues

_KINDS: dict[str, tuple[DataType, pa.DataType]] = {
    **dict.fromkeys(("topic", "body", "keys", "broker_name", "sharding_key"), (StringType(), pa.string())),
    **dict.fromkeys(("queue_id",), (IntegerType(), pa.int32())),
    **dict.fromkeys(("delay_level", "delay_ms", "flag"), (LongType(), pa.int64())),
    "deliver_ts": (TimestampType(), pa.timestamp("us", "America/New_York")),
    "properties": (MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string())),
}


def _write(sandbox: ThreadedSandbox, topic: str, *rows: dict[str, Any]) -> int:
    """Send rows as a task does; each has the columns of the first."""
    names = list(rows[0])
    options = read_sink_options({"nameServers": sandbox.addr, "topic": topic, **PATIENT})
    writer = pickle.loads(
        pickle.dumps(MessageWriter(options, StructType([StructField(name, _KINDS[name][0]) for name in names])))
    )
    schema = pa.schema([(name, _KINDS[name][1]) for name in names])
    batches = [pa.RecordBatch.from_pylist(list(rows), schema=schema)] if rows else []
    count: int = writer.write(iter(batches)).count
    return count


def test_rows_keep_their_queue_and_their_order(sandbox: ThreadedSandbox) -> None:
    create_topic(sandbox, "SinkPlaced")
    places = [(BROKERS[n % 2], n // 2 % 2) for n in range(40)]
    rows = [{"body": f"{n:02}", "broker_name": at, "queue_id": q} for n, (at, q) in enumerate(places)]
    assert _write(sandbox, "SinkPlaced", *rows) == 40
    assert _bodies(sandbox, "SinkPlaced") == {
        place: [f"{n:02}" for n in range(40) if places[n] == place] for place in places
    }


def test_sharding_keys_choose_the_queue_and_keep_the_order(sandbox: ThreadedSandbox) -> None:
    create_topic(sandbox, "SinkKeyed")
    # A message that was read has its sharding key in the properties.
    rows = [
        {"body": f"{n:02}", "sharding_key": f"k{n % 5}", "properties": {}, "flag": n}
        if n % 2
        else {"body": f"{n:02}", "sharding_key": None, "properties": {SHARDING_KEY: f"k{n % 5}"}, "flag": None}
        for n in range(40)
    ]
    assert _write(sandbox, "SinkKeyed", *rows) == 40
    queues = [MessageQueue("SinkKeyed", at, q) for at in BROKERS for q in (0, 1)]
    wanted: dict[tuple[str, int], list[str]] = {(mq.broker_name, mq.queue_id): [] for mq in queues}
    for n in range(40):
        mq = queue_of_key(queues, f"k{n % 5}")
        wanted[mq.broker_name, mq.queue_id].append(f"{n:02}")
    assert _bodies(sandbox, "SinkKeyed") == wanted
    held = read_all(sandbox, "SinkKeyed")
    assert {int(each.body): each.flag for each in held} == {n: n if n % 2 else 0 for n in range(40)}


def _bodies(sandbox: ThreadedSandbox, topic: str) -> dict[tuple[str, int], list[str]]:
    return {at: [each.body.decode() for each in held] for at, held in read_queues(sandbox, topic).items()}


@pytest.mark.parametrize(
    ("delay", "properties"),
    [
        ({"delay_level": 3}, {"DELAY": "3"}),
        ({"delay_ms": 250}, {"TIMER_DELAY_MS": "250"}),
        ({"deliver_ts": datetime(2030, 1, 1, tzinfo=UTC)}, {"TIMER_DELIVER_MS": "1893456000000"}),
        ({"delay_level": None, "deliver_ts": None}, {}),
    ],
)
def test_delays(delay: dict[str, Any], properties: dict[str, str]) -> None:
    schema = pa.schema([(name, _KINDS[name][1]) for name in ("body", *delay)])
    (row,) = sink._rows(pa.RecordBatch.from_pylist([{"body": "x", **delay}], schema=schema))
    assert sink._message(row, "id").properties == {"WAIT": "true", "UNIQ_KEY": "id", **properties}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"queue_id": 0, "broker_name": None}, "only one of broker_name and queue_id"),
        ({"queue_id": 9, "broker_name": "broker-a"}, "Topic SinkRefusing has no writable queue broker-a:9."),
        ({"queue_id": -1, "broker_name": "broker-a"}, "a negative number"),
        ({"queue_id": 0, "broker_name": "broker-a", "sharding_key": "k"}, "both a queue and a sharding key"),
        ({"sharding_key": ""}, "The sharding key is empty."),
        ({"delay_level": 1, "delay_ms": 5}, "more than one of delay_level, delay_ms, deliver_ts"),
        ({"delay_level": -1}, "a negative number"),
        ({"delay_level": 0}, "a delay_level other than 1 to 18"),
        ({"delay_level": 19}, "a delay_level other than 1 to 18"),
        ({"flag": 2**31}, "flag 2147483648: it must be a number of 32 bits"),
        ({"topic": ""}, "a row without a topic"),
        ({"topic": "TBW102"}, "TBW102"),
    ],
)
def test_rows_that_no_message_can_be(sandbox: ThreadedSandbox, row: dict[str, Any], sentence: str) -> None:
    create_topic(sandbox, "SinkRefusing")
    with pytest.raises(UsageError) as raised:
        _write(sandbox, "SinkRefusing", {"body": "x", **row})
    assert sentence in raised.value.sentence
    assert read_all(sandbox, "SinkRefusing") == []


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"keys": StringType()}, "The rows have no column body."),
        ({"body": IntegerType()}, "The column body must be binary or string, not int."),
        ({"body": StringType(), "key": StringType()}, "Unknown column 'key'."),
        ({"body": StringType(), "queue_id": IntegerType()}, "The columns broker_name and queue_id need each other."),
        ({"body": StringType(), "deliver_ts": StringType()}, "The column deliver_ts must be timestamp, not string."),
        ({"body": StringType(), "queue_offset": LongType()}, "A message has no place for queue_offset"),
    ],
)
def test_columns_that_no_message_can_have(columns: dict[str, DataType], sentence: str) -> None:
    options = read_sink_options({"nameServers": "127.0.0.1:1", "topic": "Any"})
    with pytest.raises(UsageError) as raised:
        MessageWriter(options, StructType([StructField(name, kind) for name, kind in columns.items()]))
    assert raised.value.sentence.startswith(sentence)


class _Failing:
    """A producer whose broker is away for some requests, also in the middle of messages."""

    def __init__(self, failure_count: int) -> None:
        self.stored: list[bytes] = []
        self._left = failure_count
        self.routes = self

    async def route(self, topic: str, *, again: bool) -> None:
        assert (topic, again) == ("T", True)

    async def send_message(self, topic: str, message: OutgoingMessage, *, mq: MessageQueue | None) -> None:
        if self._left and message.body != b"0":
            self._left -= 1
            raise UnreachableError("broker-a", "connection refused")
        self.stored.append(message.body)

    async def send_batches(
        self, topic: str, messages: Sequence[OutgoingMessage], *, mq: MessageQueue | None
    ) -> AsyncIterator[list[None]]:
        for each in messages:
            await self.send_message(topic, each, mq=mq)
            yield [None]


@pytest.mark.parametrize("is_delayed", [False, True])
def test_a_broker_that_is_away_is_asked_again(is_delayed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "_AGAIN_S", 0.0)
    messages = [OutgoingMessage(str(n).encode(), {}) for n in range(5)]
    client: Any = SimpleNamespace(clock=SystemClock())

    def send(producer: Any, timeout_s: float) -> list[bytes]:
        place = sink._Place("T", None, is_delayed)
        asyncio.run(sink._Patience(client, producer, place, timeout_s).send(messages))
        return sorted(producer.stored)

    assert send(_Failing(3), 60.0) == [b"0", b"1", b"2", b"3", b"4"]
    with pytest.raises(UnreachableError):
        send(_Failing(10_000), 0.0)


def test_keys_are_read_on_the_machine_of_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    path.write_text("accessKey: operator\nsecretKey: s3cret-of-file\n")
    monkeypatch.setenv("RMQCTL_ACCESS_KEY", "operator")
    monkeypatch.setenv("RMQCTL_SECRET_KEY", "s3cret-of-environment")
    here = [task_access(Access("127.0.0.1:1", 1.0)), task_access(Access("127.0.0.1:1", 1.0, str(path)))]
    sent = pickle.dumps(here)
    assert b"s3cret" not in sent
    monkeypatch.delenv("RMQCTL_ACCESS_KEY")
    monkeypatch.delenv("RMQCTL_SECRET_KEY")
    path.unlink()
    of_environment, of_file = pickle.loads(sent)
    with pytest.raises(UsageError, match="only the driver has RMQCTL_ACCESS_KEY"):
        asyncio.run(of_environment.connect())
    with pytest.raises(UsageError, match="Cannot read the credentials file") as raised:
        asyncio.run(of_file.connect())
    assert raised.value.hint is not None
    assert "Each executor reads this file itself" in raised.value.hint
