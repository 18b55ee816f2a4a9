"""Where a stream's next batch ends: by topics that match, by how much waits, and with queues that are absent."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest

from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_group_table
from rmqctl.errors import NotFoundError, RmqctlError, UnreachableError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.progress import offsets_behind
from rmqctl.pipeline.source.data_source import MessageReader
from rmqctl.pipeline.source.options import read_source_options
from rmqctl.pipeline.source.ranges import offsets_as_json
from rmqctl.pipeline.source.stream_reader import MessageStreamReader
from rmqctl.protocol.codes import RequestCode
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.spark.smoke.smoke_data import PATIENT, create_topic, joined, leave, put


def _reader(sandbox: ThreadedSandbox, **options: str) -> MessageStreamReader:
    return MessageStreamReader(read_source_options({"nameServers": sandbox.addr, **PATIENT, **options}, 0), ("body",))


def _batch(sandbox: ThreadedSandbox, **options: str) -> MessageReader:
    return MessageReader(read_source_options({"nameServers": sandbox.addr, **options}, 0), ("body",))


def _next(reader: MessageStreamReader, start: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def test_a_pattern_also_takes_topics_that_come_later(sandbox: ThreadedSandbox) -> None:
    create_topic(sandbox, "SmokeLike-1", queue_count=1)
    create_topic(sandbox, "SmokeUnlike", queue_count=1)
    put(sandbox, "SmokeLike-1", "broker-a:0", "ab")
    stream = _reader(sandbox, subscribePattern="SmokeLike.*", startingOffsets="latest")
    begun = stream.initialOffset()
    assert begun == {"SmokeLike-1": {"broker-a:0": 2, "broker-b:0": 0}}
    create_topic(sandbox, "SmokeLike-2", queue_count=1)
    put(sandbox, "SmokeLike-2", "broker-b:0", "xyz")
    end = _next(stream, begun)
    assert end == {**begun, "SmokeLike-2": {"broker-a:0": 0, "broker-b:0": 3}}
    (part,) = stream.partitions(begun, end)
    (each,) = part.task.ranges
    assert (str(each.mq), each.first_offset, each.end_offset) == ("SmokeLike-2@broker-b:0", 0, 3)
    with pytest.raises(UsageError, match="No topic matches subscribePattern"):
        _reader(sandbox, subscribePattern="Like-1").initialOffset()


def test_a_batch_waits_for_enough_messages(sandbox: ThreadedSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    create_topic(sandbox, "SmokeFew", queue_count=1)
    few = {"topic": "SmokeFew", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1m"}
    stream = _reader(sandbox, **few)
    begun = stream.initialOffset()
    assert _next(stream, begun) == begun  # the first batch never waits, so it ends here
    put(sandbox, "SmokeFew", "broker-a:0", "ab")
    assert _next(stream, begun) == begun
    assert stream.reportLatestOffset() == {"SmokeFew": {"broker-a:0": 2, "broker-b:0": 0}}
    put(sandbox, "SmokeFew", "broker-b:0", "c")
    enough = _next(stream, begun)
    assert enough == {"SmokeFew": {"broker-a:0": 2, "broker-b:0": 1}}
    put(sandbox, "SmokeFew", "broker-b:0", "d")
    assert _next(stream, enough) == enough
    now_s += 60
    assert _next(stream, enough) == {"SmokeFew": {"broker-a:0": 2, "broker-b:0": 2}}

    put(sandbox, "SmokeFew", "broker-b:0", "e")
    stream.prepareForTriggerAvailableNow()
    assert _next(stream, enough) == {"SmokeFew": {"broker-a:0": 2, "broker-b:0": 3}}


def test_options_of_streams_and_of_batches_are_told_apart(sandbox: ThreadedSandbox) -> None:
    for name, value in (("minOffsetsPerTrigger", "1"), ("maxOffsetsPerTrigger", "1"), ("commitGroup", "G")):
        with pytest.raises(UsageError, match=f"The option {name} is only for streams"):
            _batch(sandbox, topic="T", **{name: value})
    with pytest.raises(UsageError, match="endingOffsets is not supported"):
        _reader(sandbox, topic="T", endingOffsets="latest")


def test_absent_queues_have_no_known_end(sandbox: ThreadedSandbox, caplog: pytest.LogCaptureFixture) -> None:
    create_topic(sandbox, "SmokeHere", queue_count=1)
    # The last one is from a time when the pattern was another one.
    begun = {"SmokeHere": {"broker-a:0": 0, "broker-b:0": 0, "broker-c:7": 5}, "SmokeElsewhere": {"broker-a:0": 1}}
    stream = _reader(sandbox, subscribePattern="SmokeHere|SmokeHereBefore")
    with caplog.at_level(logging.WARNING):
        assert _next(stream, begun) == _next(stream, begun) == begun
    assert caplog.messages == ["Not reading now: SmokeHere@broker-c:7: no registered broker has them."]
    assert stream.reportLatestOffset() == {"SmokeHere": {"broker-a:0": 0, "broker-b:0": 0}}

    gone = {**begun, "SmokeHereBefore": {"broker-a:0": 5}}
    with pytest.raises(RmqctlError, match="No registered broker has SmokeHereBefore"):
        _next(stream, gone)
    tolerant = _reader(sandbox, subscribePattern="SmokeHere|SmokeHereBefore", failOnDataLoss="false")
    assert _next(tolerant, gone) == gone


def test_a_broker_that_is_away_is_not_a_broker_without_messages(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadedSandbox(brokers=2) as sandbox:
        create_topic(sandbox, "Orders", queue_count=1)
        sandbox.create_topic("Orders-B", queues=1, broker="broker-b")
        for topic, place in (("Orders", "broker-a:0"), ("Orders", "broker-b:0"), ("Orders-B", "broker-b:0")):
            put(sandbox, topic, place, "abc")
        quick = {"subscribePattern": "Orders.*", "rocketmq.timeout": "2s"}
        stream = _reader(sandbox, **quick)
        begun = stream.initialOffset()
        end = _next(stream, begun)
        put(sandbox, "Orders", "broker-a:0", "d")
        sandbox.stop_broker("broker-b")

        with caplog.at_level(logging.WARNING):
            # Of its queues only the ends are unknown, also of a topic that no other broker has.
            assert _next(stream, end) == {**end, "Orders": {"broker-a:0": 4, "broker-b:0": 3}}
        assert "broker-b: not registered; rmqctl last saw it" in caplog.messages[0]
        assert stream.partitions(end, _next(stream, end))[0].task.ranges[0].end_offset == 4
        for options in (quick, {**quick, "failOnDataLoss": "false"}):
            # A batch that needs its messages fails, and does not count them as lost.
            with pytest.raises(UnreachableError, match="broker-b: not registered"):
                _reader(sandbox, **options).partitions(begun, end)
        for reader in (_reader(sandbox, **quick).initialOffset, _batch(sandbox, **quick).partitions):
            with pytest.raises(UnreachableError, match="broker-b: not registered") as raised:
                reader()
            assert "failOnAbsentBroker=false" in str(raised.value.hint)
        (part,) = _batch(sandbox, **quick, failOnAbsentBroker="false", maxPartitions="1").partitions()
        assert [str(each.mq) for each in part.task.ranges] == ["Orders@broker-a:0"]

        sandbox.start_broker("broker-b")
        assert _next(stream, end)["Orders"] == {"broker-a:0": 4, "broker-b:0": 3}
        sandbox.faults.silence(RequestCode.GET_MAX_OFFSET, server="broker-b", count=None)
        assert _next(stream, end)["Orders"] == {"broker-a:0": 4, "broker-b:0": 3}


def test_messages_of_a_broker_that_was_never_seen_count_as_lost(sandbox: ThreadedSandbox) -> None:
    create_topic(sandbox, "SmokeUnseen", queue_count=1)
    begun, end = ({"SmokeUnseen": {"broker-c:0": offset, "broker-a:7": 0}} for offset in (0, 5))
    with pytest.raises(RmqctlError, match=r"SmokeUnseen@broker-c:0 0 to 4 \(broker-c is not registered\)"):
        _reader(sandbox, topic="SmokeUnseen").partitions(begun, end)


def test_progress_is_written_to_a_group(sandbox: ThreadedSandbox, caplog: pytest.LogCaptureFixture) -> None:
    create_topic(sandbox, "SmokeCommitted", queue_count=1)
    put(sandbox, "SmokeCommitted", "broker-a:0", "abc")
    writing = {"topic": "SmokeCommitted", "commitGroup": "SmokeCommitting"}
    stream = _reader(sandbox, **writing)
    begun = stream.initialOffset()
    with pytest.raises(NotFoundError, match="Group SmokeCommitting"):
        _next(stream, begun)
    leave(sandbox, "SmokeCommitting", "SmokeCommitted", {})
    end = _next(stream, begun)
    assert _committed(sandbox) == begun
    with caplog.at_level(logging.WARNING):
        with joined(sandbox, "SmokeCommitting", "SmokeCommitted"):
            assert _next(stream, end) == _next(stream, end) == end
            with pytest.raises(UsageError, match="Group SmokeCommitting has members that commit its offsets: member"):
                _next(_reader(sandbox, **writing), end)
        assert _committed(sandbox) == begun
        assert len(caplog.messages) == 1
        _next(stream, end)
    assert _committed(sandbox) == end
    assert len(caplog.messages) == 1


def test_progress_is_written_again_when_brokers_lose_it(
    sandbox: ThreadedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    create_topic(sandbox, "SmokeLosing", queue_count=1)
    put(sandbox, "SmokeLosing", "broker-a:0", "abc")
    leave(sandbox, "SmokeLosingIt", "SmokeLosing", {})
    stream = _reader(sandbox, topic="SmokeLosing", commitGroup="SmokeLosingIt")
    end = _next(stream, stream.initialOffset())
    _next(stream, end)
    leave(sandbox, "SmokeLosingIt", "SmokeLosing", {"broker-a:0": 1})
    assert _next(stream, end) == end
    assert _committed(sandbox, "SmokeLosingIt")["SmokeLosing"]["broker-a:0"] == 1
    now_s += 60
    assert _next(stream, end) == end
    assert _committed(sandbox, "SmokeLosingIt") == end


def _committed(sandbox: ThreadedSandbox, group: str = "SmokeCommitting") -> dict[str, dict[str, int]]:
    async def read() -> dict[MessageQueue, int]:
        async with Client(sandbox.addr) as client:
            tables = [await fetch_group_table(client, broker, group) for broker in (await client.cluster()).brokers]
        return {mq: offset for table in tables for mq, offset in table.offsets.items()}

    return offsets_as_json(asyncio.run(read()))


def test_progress_names_what_is_behind() -> None:
    ours = SimpleNamespace(
        endOffset='{"Orders": {"broker-a:0": 5, "broker-a:1": 9, "broker-b:0": 3}}',
        latestOffset='{"Orders": {"broker-a:0": 12, "broker-a:1": 7}}',
    )
    texts = ('{"Orders": {"0": 5}}', '{"n": 1}', "[1]", None, "")
    others = [SimpleNamespace(endOffset=text, latestOffset=text) for text in texts]
    behind = offsets_behind(SimpleNamespace(sources=[*others, ours]))  # type: ignore[arg-type]
    assert behind == {
        MessageQueue("Orders", "broker-a", 0): 7,
        MessageQueue("Orders", "broker-a", 1): 0,
        MessageQueue("Orders", "broker-b", 0): None,
    }
