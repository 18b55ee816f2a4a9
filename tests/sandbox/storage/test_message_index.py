"""Finding messages by what they carry, and by where they stand."""

from __future__ import annotations

from typing import Any

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.message import iter_messages
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.storage.message_index import MessageIndex
from tests.sandbox.handlers.test_sending import BOTH, play
from tests.sandbox.peer import Peer
from tests.sandbox.sender import batch_body, log_offset, pairs, read, send, send_batch

_FAR_MS = 2_000_000_000_000


async def query(peer: Peer, key: str, **changes: Any) -> list[bytes]:
    """Return the bodies of what is found."""
    fields = {"topic": "T", "key": key, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": _FAR_MS, **changes}
    answer = await peer.ask(RequestCode.QUERY_MESSAGE, **fields)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        assert answer.ext_fields == {"indexLastUpdatePhyoffset": "0", "indexLastUpdateTimestamp": "0"}
        return []
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return [message.stored_body for message in iter_messages(answer.body)]


@BOTH
def test_by_key_and_unique_key(plays: str) -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        for number in range(4):
            await send(peer, "T", b"m%d" % number, properties=pairs(UNIQ_KEY=f"U{number}", KEYS=f"all  k{number}"))
        await send(peer, "Other", b"other", properties=pairs(UNIQ_KEY="U0", KEYS="all"))
        await send_batch(peer, "T", batch_body((b"b0", pairs(KEYS="bk")), (b"b1", pairs(KEYS="bk", UNIQ_KEY="UB"))))
        assert await query(peer, "all") == [b"m0", b"m1", b"m2", b"m3"]
        # The newest ones, the oldest of them first.
        assert await query(peer, "all", maxNum=2) == [b"m2", b"m3"]
        assert await query(peer, "all", maxNum=0) == []
        assert await query(peer, "all", maxNum=1, _UNIQUE_KEY_QUERY=True) == [b"m0", b"m1", b"m2", b"m3"]
        assert await query(peer, "k2") == [b"m2"]
        assert await query(peer, "U0") == [b"m0"]
        assert await query(peer, "bk") == [b"b0", b"b1"]
        assert await query(peer, "UB") == [b"b1"]
        assert await query(peer, "") == []
        assert await query(peer, "all", topic="Nobody") == []

    play(plays, scenario)


def test_by_tag_since_5() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"tagged", properties=pairs(TAGS="t"))
        await send(peer, "T", b"keyed", properties=pairs(KEYS="t"))
        assert await query(peer, "t", indexType="T") == [b"tagged"]
        assert await query(peer, "t", indexType="K") == [b"keyed"]

    play("5.4.0", scenario)


def test_a_message_that_names_a_key_twice_is_found_twice() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"twice", properties=pairs(KEYS="k k"))
        assert await query(peer, "k") == [b"twice", b"twice"]

    play("5.4.0", scenario)


def test_times_are_whole_seconds_since_the_first_message() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        first_ms = sandbox.clock.now_ms()
        await send(peer, "T", b"first", properties=pairs(KEYS="k"))
        await sandbox.advance(1.7)
        await send(peer, "T", b"second", properties=pairs(KEYS="k"))
        assert await query(peer, "k", beginTimestamp=first_ms + 1_000) == [b"second"]
        assert await query(peer, "k", beginTimestamp=first_ms + 1_001) == []
        assert await query(peer, "k", endTimestamp=first_ms + 1_000) == [b"first", b"second"]
        assert await query(peer, "k", endTimestamp=first_ms + 999) == [b"first"]

    play("5.4.0", scenario)


def test_delayed_messages_are_found_under_the_topic_they_wait_in_and_then_under_their_own() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"late", properties=pairs(KEYS="k", DELAY=1))
        assert await query(peer, "k") == []
        assert await query(peer, "k", topic="SCHEDULE_TOPIC_XXXX") == [b"late"]
        await sandbox.advance(2)
        assert await query(peer, "k") == [b"late"]

    play("5.4.0", scenario)


def test_a_hash_that_two_keys_share_finds_only_the_right_one() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        right = log_offset(await send(peer, "T", b"right", properties=pairs(KEYS="k")))
        wrong = log_offset(await send(peer, "T", b"wrong", properties=pairs(KEYS="other")))
        store = sandbox.brokers["broker-a"].store
        now_ms = sandbox.clock.now_ms()
        store.index.add("T", {"KEYS": "k"}, wrong, now_ms)
        assert list(store.index.newest_first("T", "k")) == [wrong, right]
        assert [found.body for found in store.find_by_key("T", "k", 32, 0, _FAR_MS)] == [b"right"]

    play("5.4.0", scenario)


def test_where_the_index_ends_is_told() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        offset = log_offset(await send(peer, "T", b"one", properties=pairs(KEYS="k")))
        await sandbox.advance(3)
        fields = {"topic": "T", "key": "k", "maxNum": 9, "beginTimestamp": 0, "endTimestamp": _FAR_MS}
        answer = await peer.ask_ok(RequestCode.QUERY_MESSAGE, **fields)
        assert answer.ext_fields == {
            "indexLastUpdatePhyoffset": str(offset), "indexLastUpdateTimestamp": str(sandbox.clock.now_ms() - 3_000),
        }  # fmt: skip
        assert (await peer.ask(RequestCode.QUERY_MESSAGE, **{**fields, "maxNum": -1})).code == 1
        del fields["endTimestamp"]
        assert (await peer.ask(RequestCode.QUERY_MESSAGE, **fields)).code == 1

    play("5.4.0", scenario)


def test_by_place_in_the_log() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        offset = log_offset(await send(peer, "T", b"one"))
        (message,) = await read(peer, "T")
        view = RequestCode.VIEW_MESSAGE_BY_ID
        assert (await peer.ask_ok(view, offset=offset, topic="whatever")).body == message.record
        for bad in (offset + 1, -1, 10**15):
            answer = await peer.ask(view, offset=bad)
            assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {bad}")
        assert (await peer.ask(view)).code == ResponseCode.SYSTEM_ERROR

    play("5.4.0", scenario)


def test_what_is_dropped_is_found_no_more() -> None:
    index = MessageIndex()
    for offset in (0, 100):
        index.add("T", {"KEYS": "k"}, offset, 1_000 + offset)
    index.drop_before(100)
    assert list(index.newest_first("T", "k")) == [100]
    assert index.last_offset == 100
