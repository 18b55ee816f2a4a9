"""Stored offsets, the ends of queues, and times in them."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.data_version import DataVersion
from rmqctl.sandbox.groups.offsets import OffsetTable
from rmqctl.sandbox.storage.state import StateStore
from tests.sandbox.peer import Peer
from tests.sandbox.progress import commit, join, send

QUERY, UPDATE = RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET
MAX, MIN, SEARCH = RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
EARLIEST, ALL = RequestCode.GET_EARLIEST_MSG_STORETIME, RequestCode.GET_ALL_CONSUMER_OFFSET
NONE = ResponseCode.QUERY_NOT_FOUND

RELEASES = pytest.mark.parametrize("plays", ["4.9.7", "5.4.0"])


def _sandbox(**options: Any) -> Sandbox:
    return Sandbox(clock=VirtualClock(), **options)


async def _query(peer: Peer, queue_id: int = 0, *, topic: str = "T", **more: Any) -> int | str | None:
    """Return the offset, or why there is none."""
    answer = await peer.ask(QUERY, consumerGroup="G", topic=topic, queueId=queue_id, **more)
    return int(answer.ext_fields["offset"]) if answer.code == ResponseCode.SUCCESS else answer.remark


_NOT_FOUND = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
_NOT_ZERO = "Not found, do not set to zero, maybe this group boot first"


async def test_5_x_answers_0_for_none_only_where_a_first_message_is() -> None:
    async with _sandbox() as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        assert await _query(peer, topic="None") == _NOT_FOUND
        await send(peer, "T")
        assert await _query(peer) == 0
        assert await _query(peer, setZeroIfNotFound=False) == _NOT_ZERO
        assert await _query(peer, 1) == _NOT_FOUND
        await sandbox.advance(1)
        await send(peer, "T")
        broker.store.drop_stored_before(broker.now_ms())
        assert await _query(peer) == _NOT_FOUND


async def test_4_9_answers_0_for_none_unless_the_first_messages_are_gone() -> None:
    async with _sandbox(plays="4.9.7") as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        assert await _query(peer, topic="None") == 0
        await send(peer, "T")
        assert await _query(peer, 1, setZeroIfNotFound=False) == 0
        await sandbox.advance(1)
        broker.store.drop_stored_before(broker.now_ms())
        assert await _query(peer) == _NOT_FOUND


@RELEASES
async def test_any_offset_is_stored(plays: str) -> None:
    async with _sandbox(plays=plays) as sandbox:
        peer = await join(sandbox, "one", "G", "T")
        await send(peer, "T")
        for queue_id, offset in ((0, 9), (0, 2), (77, 3), (-1, 4), (0, 2**40)):
            await commit(peer, "G", "T", queue_id, offset)
            assert await _query(peer, queue_id) == offset
        # A negative one counts as none.
        await commit(peer, "G", "T", 0, -5)
        assert await _query(peer) == 0


async def _update(peer: Peer, **fields: Any) -> Command:
    return await peer.ask(UPDATE, **{"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1, **fields})


async def test_5_x_wants_a_group_and_a_topic_that_exist() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        answer = await _update(peer)
        assert (answer.code, answer.remark) == (
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group G not exist!"
        )  # fmt: skip
        await join(sandbox, "one", "G", "T")
        answer = await _update(peer)
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "Topic T not exist!")
        await send(peer, "T")
        answer = await _update(peer, queueId="x")
        assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, "QueueId is null, topic is T")
        answer = await _update(peer, commitOffset="x")
        assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, "Offset is null, topic is T")
        assert (await _update(peer)).code == ResponseCode.SUCCESS


async def test_4_9_checks_nothing() -> None:
    async with _sandbox(plays="4.9.7") as sandbox:
        peer = await Peer.of_broker(sandbox)
        assert (await _update(peer)).code == ResponseCode.SUCCESS
        assert await _query(peer) == 1
        assert (await _update(peer, queueId="x")).code == ResponseCode.SYSTEM_ERROR


async def test_what_is_committed_while_a_reset_waits_is_ignored() -> None:
    async with _sandbox() as sandbox:
        peer = await join(sandbox, "one", "G", "T")
        await send(peer, "T", count=3)
        sandbox.brokers["broker-a"].offsets.reset("G", "T", 0, 1)
        answer = await _update(peer, commitOffset=3)
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "Offset has been previously reset")
        assert await _query(peer) == 1
        sandbox.brokers["broker-a"].settings.update({"useServerSideResetOffset": "false"})
        await _update(peer, commitOffset=3)
        assert await _query(peer) == 3


@RELEASES
async def test_the_ends_of_queues(plays: str) -> None:
    async with _sandbox(plays=plays) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        first_ms = broker.now_ms()
        await send(peer, "T")
        await sandbox.advance(1)
        await send(peer, "T")

        async def ends(queue_id: int, topic: str = "T") -> list[str]:
            answers = [await peer.ask_ok(code, topic=topic, queueId=queue_id) for code in (MIN, MAX, EARLIEST)]
            assert answers[0].remark == (None if plays == "4.9.7" else "")
            return [text for answer in answers for text in answer.ext_fields.values()]

        assert await ends(0) == ["0", "2", str(first_ms)]
        assert await ends(1) == await ends(0, "None") == ["0", "0", "-1"]
        broker.store.drop_stored_before(first_ms + 1)
        assert await ends(0) == ["1", "2", str(first_ms + 1000)]
        broker.store.drop_stored_before(broker.now_ms() + 1)
        assert await ends(0) == ["2", "2", "-1"]


async def _timed(sandbox: Sandbox) -> tuple[Peer, int]:
    """Store messages at 0, 10, 10, 10, 20 and 50 s; return the first one's time."""
    peer, start_ms = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"].now_ms()
    for wait_s, count in ((10, 1), (10, 3), (30, 1), (0, 1)):
        await send(peer, "T", count=count)
        await sandbox.advance(wait_s)
    return peer, start_ms


@pytest.mark.parametrize(
    ("seconds", "lower", "upper", "nearest"),
    [
        (-100, 0, 0, 0), (0, 0, 0, 0), (1, 1, 0, 0), (5, 1, 0, 0), (6, 1, 0, 1), (10, 1, 3, 2), (14, 4, 3, 3),
        (15, 4, 3, 3), (16, 4, 3, 4), (20, 4, 4, 4), (50, 5, 5, 5), (51, 6, 5, 5), (9999, 6, 5, 5),
    ],
)  # fmt: skip
async def test_where_a_time_stands_in_a_queue(seconds: int, lower: int, upper: int, nearest: int) -> None:
    async with _sandbox() as sandbox, _sandbox(plays="4.9.7") as old:
        (peer, start_ms), (old_peer, old_start_ms) = await _timed(sandbox), await _timed(old)

        async def search(peer: Peer, start_ms: int, **more: str) -> int:
            time_ms = start_ms + seconds * 1000
            answer = await peer.ask_ok(SEARCH, topic="T", queueId=0, timestamp=time_ms, **more)
            return int(answer.ext_fields["offset"])

        assert await search(peer, start_ms) == lower
        assert await search(peer, start_ms, boundaryType="lower") == lower
        assert await search(peer, start_ms, boundaryType="UPPER") == upper
        assert await search(old_peer, old_start_ms, boundaryType="upper") == nearest


async def test_times_before_all_messages_of_a_queue_that_lost_its_oldest() -> None:
    """5.x answers where the queue's file begins, which is before the first message that is left."""

    async with _sandbox() as sandbox, _sandbox(plays="4.9.7") as old:
        for each, expected in ((sandbox, "0"), (old, "1")):
            peer, start_ms = await _timed(each)
            each.brokers["broker-a"].store.drop_stored_before(start_ms + 1)
            answer = await peer.ask_ok(SEARCH, topic="T", queueId=0, timestamp=0)
            assert answer.ext_fields["offset"] == expected


async def test_a_time_in_a_queue_that_there_is_not() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        answer = await peer.ask_ok(SEARCH, topic="None", queueId=0, timestamp=1)
        assert answer.ext_fields == {"offset": "0"}


@RELEASES
async def test_the_whole_table(plays: str) -> None:
    async with _sandbox(plays=plays) as sandbox:
        peer = await join(sandbox, "one", "G", "T")
        await send(peer, "T")
        for topic, queue_id, offset in (("T", 0, 1), ("T", 1, 6), ("%RETRY%G", 0, 0)):
            await commit(peer, "G", topic, queue_id, offset)
        raw = (await peer.ask_ok(ALL)).body
        assert b'"T@G":{0:1,1:6}' in raw
        body = await peer.ask_json(ALL)
        assert body["offsetTable"] == {"T@G": {"0": 1, "1": 6}, "%RETRY%G@G": {"0": 0}}
        if plays == "4.9.7":
            assert list(body) == ["offsetTable"]
        else:
            assert body["groupTopicMap"] == {"G": ["T", "%RETRY%G"]}
            assert body["dataVersion"]["counter"] == 0


def test_the_table_counts_as_another_one_after_500_changes() -> None:
    table = OffsetTable(lambda: 7, StateStore())
    version: DataVersion = table.version
    for offset in range(1, 500):
        table.store("G", "T", 0, offset)
    assert version.counter == 0
    table.store("G", "T", 0, 500)
    table.store("G", "T", 0, 500)
    assert version.counter == 1
    assert table.topics_by_group() == {"G": ["T"]}


def test_any_names_come_back_from_the_state() -> None:
    """4.9 checks none of them."""
    state = StateStore()
    stored = {("T", "a@b"): {0: 1}, ("a@b", "c"): {-1: 2}, ("%RETRY%a@b", "a@b"): {0: 3}, ('"', ""): {7: 4}}
    table = OffsetTable(lambda: 7, state)
    for (topic, group), queues in stored.items():
        for queue_id, offset in queues.items():
            table.store(group, topic, queue_id, offset)
    assert OffsetTable(lambda: 7, state).stored == stored
    table.clone("a@b", "new", "T")
    table.delete(group="a@b")
    assert OffsetTable(lambda: 7, state).stored == {
        ("T", "new"): {0: 1}, ("a@b", "c"): {-1: 2}, ('"', ""): {7: 4}
    }  # fmt: skip
