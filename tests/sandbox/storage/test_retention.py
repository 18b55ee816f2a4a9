"""How long messages are kept, by the broker's own clock, and orders to clean."""

from __future__ import annotations

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.storage.commit_log import SEGMENT_BYTES
from rmqctl.sandbox.storage.store import NewMessage
from tests.sandbox.peer import Peer

HOUR_S = 3600


def put(sandbox: Sandbox, count: int, *, topic: str = "T") -> None:
    for _ in range(count):
        sandbox.brokers["broker-a"].put(NewMessage(topic, 0, b"x"))


async def ends(peer: Peer, topic: str = "T") -> tuple[int, int]:
    low = await peer.ask_ok(RequestCode.GET_MIN_OFFSET, topic=topic, queueId=0)
    high = await peer.ask_ok(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=0)
    return int(low.ext_fields["offset"]), int(high.ext_fields["offset"])


async def test_messages_are_kept_for_72_hours() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        put(sandbox, 3)
        broker.skew_ms = 24 * HOUR_S * 1000
        put(sandbox, 2)
        broker.skew_ms = 71 * HOUR_S * 1000
        await sandbox.advance(20)
        assert await ends(peer) == (0, 5)
        broker.skew_ms = 72 * HOUR_S * 1000
        await sandbox.advance(20)
        assert await ends(peer) == (3, 5)
        broker.skew_ms = 96 * HOUR_S * 1000
        await sandbox.advance(20)
        assert await ends(peer) == (5, 5)
        await peer.aclose()


async def test_time_that_passes_moves_the_first_offset() -> None:
    async with Sandbox(clock=VirtualClock(), settings={"fileReservedTime": "1"}) as sandbox:
        put(sandbox, 3)
        await sandbox.advance(HOUR_S / 2)
        put(sandbox, 2)
        await sandbox.advance(HOUR_S / 2 - 20)
        peer = await Peer.of_broker(sandbox)
        assert await ends(peer) == (0, 5)
        await sandbox.advance(40)
        assert await ends(peer) == (3, 5)
        await peer.aclose()


async def test_how_long_follows_the_setting_and_the_brokers_clock() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        put(sandbox, 3)
        await peer.ask_ok(RequestCode.UPDATE_BROKER_CONFIG, b"fileReservedTime=1\n")
        broker.skew_ms = 50 * 60 * 1000
        await sandbox.advance(20)
        assert await ends(peer) == (0, 3)
        broker.skew_ms = 61 * 60 * 1000
        await peer.ask_ok(RequestCode.DELETE_EXPIRED_COMMITLOG)  # at once
        assert await ends(peer) == (3, 3)
        await peer.aclose()


async def test_a_queue_whose_messages_are_gone_counts_anew_once_it_is_cleaned() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        put(sandbox, 3)
        await peer.ask_ok(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert await ends(peer) == (0, 3)
        broker.skew_ms = 73 * HOUR_S * 1000
        broker.clean()
        # Its messages are still in a file of the log that is being written.
        await peer.ask_ok(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert await ends(peer) == (3, 3)
        for _ in range(5):
            broker.put(NewMessage("U", 0, bytes(SEGMENT_BYTES // 4)))
        broker.skew_ms *= 2
        broker.clean()
        await peer.ask_ok(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert await ends(peer) == (0, 0)
        await peer.aclose()


async def test_messages_of_topics_that_there_are_not_are_cleaned_by_order() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        broker.topics.create_for_group("U", 1)
        put(sandbox, 3)
        put(sandbox, 2, topic="U")
        await peer.ask_ok(RequestCode.CLEAN_UNUSED_TOPIC)
        assert await ends(peer) == (0, 0)
        assert await ends(peer, "U") == (0, 2)
        await peer.aclose()
