"""Delay levels: when messages come, what they are like then, and that each comes once."""

from __future__ import annotations

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from tests.sandbox.handlers.test_sending import BOTH, play
from tests.sandbox.peer import Peer
from tests.sandbox.sender import BORN_MS, bodies, pairs, read, send


@BOTH
def test_a_message_comes_when_its_level_says_and_keeps_what_it_was(plays: str) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        answer = await send(peer, "T", b"late", properties=pairs(UNIQ_KEY="U", TAGS="t", DELAY=2, WAIT="true"), e=3)
        assert answer.ext_fields["queueId"] == "3"
        (waiting,) = await read(peer, "SCHEDULE_TOPIC_XXXX", 1)
        assert waiting.properties["REAL_TOPIC"] == "T"
        assert waiting.properties["REAL_QID"] == "3"
        await sandbox.advance(4.99)
        assert await read(peer, "T", 3) == []
        await sandbox.advance(0.02)
        (message,) = await read(peer, "T", 3)
        assert message.born_at_ms == BORN_MS
        assert message.stored_at_ms == waiting.stored_at_ms + 5_000
        assert message.properties == waiting.properties
        assert {"UNIQ_KEY": "U", "TAGS": "t", "DELAY": "2", "WAIT": "true"}.items() <= message.properties.items()

    play(plays, scenario)


def test_a_level_beyond_the_last_is_the_last_and_none_is_no_delay() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        for level in ("0", "-1", "99"):
            assert (await send(peer, "T", level.encode(), properties=pairs(DELAY=level))).code == ResponseCode.SUCCESS
        assert await bodies(peer, "T") == [b"0", b"-1"]
        await sandbox.advance(2.9)
        assert len(await bodies(peer, "T")) == 2
        await sandbox.advance(0.2)
        assert await bodies(peer, "T") == [b"0", b"-1", b"99"]

    play("5.4.0", scenario, settings={"messageDelayLevel": "1s 3s"})


def test_who_waits_for_messages_hears_of_a_delayed_one_when_it_comes() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"first")
        pull = peer.start(
            RequestCode.PULL_MESSAGE, consumerGroup="G", topic="T", queueId=0, queueOffset=1, maxMsgNums=32, sysFlag=6,
            commitOffset=0, suspendTimeoutMillis=15_000, subscription="t", subVersion=0,
        )  # fmt: skip
        await send(peer, "T", b"late", properties=pairs(DELAY=1, TAGS="t"))
        await sandbox.advance(0.9)
        assert not pull.done()
        await sandbox.advance(0.2)
        assert pull.result().code == ResponseCode.SUCCESS

    play("5.4.0", scenario)


def test_a_restart_loses_none_and_repeats_none() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        broker = sandbox.brokers["broker-a"]
        for number in range(3):
            await send(peer, "T", b"m%d" % number, properties=pairs(DELAY=2))
            await sandbox.advance(2)
        # The first one is due by now, the others are not.
        assert await bodies(peer, "T") == [b"m0"]
        await broker.stop()
        await sandbox.advance(2)
        await broker.resume()
        again = await Peer.of_broker(sandbox)
        await sandbox.advance(0)
        assert await bodies(again, "T") == [b"m0", b"m1"]
        await broker.restart()
        once_more = await Peer.of_broker(sandbox)
        await sandbox.advance(60)
        assert await bodies(once_more, "T") == [b"m0", b"m1", b"m2"]
        await again.aclose()
        await once_more.aclose()

    play("5.4.0", scenario)


def test_a_power_cut_loses_none_that_was_flushed() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        broker = sandbox.brokers["broker-a"]
        await send(peer, "T", b"kept", properties=pairs(DELAY=2))
        await sandbox.advance(1)  # the log is flushed every half second
        await send(peer, "T", b"lost", properties=pairs(DELAY=2))
        await broker.restart(lose_unflushed=True)
        again = await Peer.of_broker(sandbox)
        await send(again, "T", b"new")
        await sandbox.advance(10)
        assert await bodies(again, "T") == [b"new", b"kept"]
        await again.aclose()

    play("5.4.0", scenario)


def test_messages_come_by_the_brokers_own_clock() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        broker = sandbox.brokers["broker-a"]
        await send(peer, "T", b"late", properties=pairs(DELAY=5))
        broker.skew_ms = 60_000
        await sandbox.advance(0)
        assert await bodies(peer, "T") == [b"late"]
        # Whoever waits for a time that is further off than any delay waits no longer: the clock was set back.
        await send(peer, "T", b"later", properties=pairs(DELAY=5))
        broker.skew_ms = 0
        await sandbox.advance(0)
        assert await bodies(peer, "T") == [b"late", b"later"]

    play("5.4.0", scenario)


def test_progress_of_the_levels() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"one", properties=pairs(DELAY=1))
        await send(peer, "T", b"two", properties=pairs(DELAY=18))
        await sandbox.advance(2)
        table = await peer.ask_json(RequestCode.GET_ALL_DELAY_OFFSET)
        assert table["offsetTable"] == {"1": 1, "18": 0}
        assert table["dataVersion"]["counter"] == 1

    play("5.4.0", scenario)

    async def scenario_4(sandbox: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"one", properties=pairs(DELAY=1))
        await send(peer, "T", b"two", properties=pairs(DELAY=18))
        await sandbox.advance(2)
        assert await peer.ask_json(RequestCode.GET_ALL_DELAY_OFFSET) == {"offsetTable": {"1": 1}}

    play("4.9.7", scenario_4)


def test_more_than_one_turn_of_messages_comes_in_order() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        for number in range(450):
            await send(peer, "T", b"%d" % number, properties=pairs(DELAY=1))
        await sandbox.advance(5)
        store = sandbox.brokers["broker-a"].store
        assert store.max_offset("T", 0) == 450
        last = store.message_at("T", 0, 449)
        assert last is not None
        assert last.body == b"449"

    play("5.4.0", scenario)
