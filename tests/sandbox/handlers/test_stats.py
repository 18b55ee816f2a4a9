"""Counters and what brokers answer of them."""

from __future__ import annotations

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.stats import DAY_S, HOUR_S, Rate, Stats
from tests.sandbox.peer import Peer
from tests.sandbox.progress import join, pull, send

VIEW, TOPIC_STATS = RequestCode.VIEW_BROKER_STATS_DATA, RequestCode.GET_TOPIC_STATS_INFO


class _Ticking:
    """Counters whose time passes by hand, sampled as a broker does it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.stats = Stats(lambda: self.now_s)

    def pass_s(self, seconds: int) -> None:
        for _ in range(seconds // 10):
            self.now_s += 10
            self.stats.sample()


def test_a_minute_holds_what_came_up_to_the_last_sample() -> None:
    ticking = _Ticking()
    stats = ticking.stats
    stats.add("N", "k", 30)
    assert stats.rate("N", "k") == Rate()
    ticking.pass_s(10)
    stats.add("N", "k", 500)
    assert stats.rate("N", "k") == Rate(30, 3.0, 30.0)
    ticking.pass_s(50)
    assert stats.rate("N", "k") == Rate(530, 530 / 60, 265.0)
    ticking.pass_s(10)
    assert stats.rate("N", "k") == Rate(500, 500 / 60, 500.0)
    ticking.pass_s(60)
    assert stats.rate("N", "k") == Rate()
    assert stats.total("N", "k") == 530


def test_hours_and_days_are_sampled_more_rarely() -> None:
    ticking = _Ticking()
    stats = ticking.stats
    ticking.pass_s(300)
    stats.add("N", "k", 60)
    ticking.pass_s(290)
    assert stats.rate("N", "k", HOUR_S) == Rate()
    ticking.pass_s(10)
    assert stats.rate("N", "k", HOUR_S) == Rate(60, 0.1, 60.0)
    assert stats.rate("N", "k", DAY_S) == Rate()
    ticking.pass_s(3000)
    assert stats.rate("N", "k", DAY_S) == Rate(60, 60 / 3600, 60.0)
    assert stats.rate("N", "k", HOUR_S) == Rate(60, 60 / 3600, 60.0)
    ticking.pass_s(600)
    assert stats.rate("N", "k", HOUR_S) == Rate()
    ticking.pass_s(24 * 3600)
    assert stats.rate("N", "k", DAY_S) == Rate()


def test_a_batch_is_one_call_and_some_counters_count_none() -> None:
    ticking = _Ticking()
    ticking.stats.add("N", "batches", 100)
    ticking.stats.add("N", "broker", 100, 0)
    ticking.pass_s(10)
    assert ticking.stats.rate("N", "batches").average == 100.0
    assert ticking.stats.rate("N", "broker") == Rate(100, 10.0, 0.0)


def test_counters_go_with_their_topic_or_group() -> None:
    stats = Stats(lambda: 0.0)
    keys = ("T", "T@G", "0@T@G", "U@G", "U", "U@T", "G", "G@H")
    for key in keys:
        stats.add("N", key)
    stats.add("BROKER_PUT_NUMS", "T")
    stats.forget(topic="T")
    assert [key for key in keys if stats.has("N", key)] == ["U@G", "U", "U@T", "G", "G@H"]
    stats.forget(group="G")
    assert [key for key in keys if stats.has("N", key)] == ["U", "U@T", "G", "G@H"]
    assert stats.has("BROKER_PUT_NUMS", "T")


async def test_brokers_tell_of_their_counters() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await join(sandbox, "one", "G", "T")
        answer = await peer.ask(VIEW, statsName="TOPIC_PUT_NUMS", statsKey="T")
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR, "The stats <TOPIC_PUT_NUMS> <T> not exist"
        )  # fmt: skip
        answer = await peer.ask(VIEW)
        assert answer.remark == "The stats <null> <null> not exist"
        await send(peer, "T", count=20)
        await pull(peer, "G", "T", 0, 0)
        await sandbox.advance(10)
        nothing = {"avgpt": 0.0, "sum": 0, "tps": 0.0}
        assert await peer.ask_json(VIEW, statsName="TOPIC_PUT_NUMS", statsKey="T") == {
            "statsDay": nothing, "statsHour": nothing, "statsMinute": {"avgpt": 1.0, "sum": 20, "tps": 2.0},
        }  # fmt: skip
        read = await peer.ask_json(VIEW, statsName="GROUP_GET_NUMS", statsKey="T@G")
        assert read["statsMinute"] == {"avgpt": 20.0, "sum": 20, "tps": 2.0}
        for name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS"):
            of_broker = await peer.ask_json(VIEW, statsName=name, statsKey="DefaultCluster")
            assert of_broker["statsMinute"] == {"avgpt": 0.0, "sum": 20, "tps": 2.0}
        for name, key in (("TOPIC_PUT_SIZE", "T"), ("GROUP_GET_SIZE", "T@G")):
            assert (await peer.ask_json(VIEW, statsName=name, statsKey=key))["statsMinute"]["sum"] > 2000


async def test_counters_begin_anew_with_the_broker() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        await send(await Peer.of_broker(sandbox), "T")
        await sandbox.brokers["broker-a"].restart()
        answer = await (await Peer.of_broker(sandbox)).ask(VIEW, statsName="TOPIC_PUT_NUMS", statsKey="T")
        assert answer.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("release", ["5.4.0", "4.9.7"])
async def test_topic_stats_tell_of_each_queue(release: str) -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock, plays=release) as sandbox:
        peer = await Peer.of_broker(sandbox)
        answer = await peer.ask(TOPIC_STATS, topic="T")
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[T] not exist")
        await send(peer, "T", 1, count=3)
        stored_at_ms = clock.now_ms()
        await sandbox.advance(10)
        body = await peer.ask_json(TOPIC_STATS, topic="T")
        table = {queue["queueId"]: entry for queue, entry in body["offsetTable"].items()}
        assert table == {
            0: {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0},
            1: {"lastUpdateTimestamp": stored_at_ms, "maxOffset": 3, "minOffset": 0},
        }
        assert body.get("topicPutTps") == (0.3 if release == "5.4.0" else None)
