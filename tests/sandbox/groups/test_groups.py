"""Consumer groups' configurations made, changed, listed and deleted by request."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer
from tests.scripted_peer import run

GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP


async def test_what_is_missing_gets_its_default_and_what_is_unknown_is_left_out() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await peer.ask_ok(GROUP, {"groupName": "G", "retryMaxTimes": 3, "nope": 1})
        config = await peer.ask_json(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="G")
        assert (config["retryMaxTimes"], config["retryQueueNums"], config["consumeEnable"]) == (3, 1, True)
        assert "nope" not in config
        await peer.ask_ok(GROUP, {"groupName": "G", "consumeEnable": False})
        config = await peer.ask_json(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="G")
        assert (config["retryMaxTimes"], config["consumeEnable"]) == (16, False)
        await peer.aclose()


@pytest.mark.parametrize(("release", "times"), [("5.4.0", 0), ("4.9.7", 16)])
async def test_null_is_zero_to_5_and_nothing_to_4(release: str, times: int) -> None:
    async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await peer.ask_ok(GROUP, {"groupName": "G", "retryMaxTimes": None})
        assert sandbox.brokers["broker-a"].groups.groups["G"]["retryMaxTimes"] == times
        answer = await peer.ask(GROUP, {"groupName": "G", "retryMaxTimes": "x"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        await peer.aclose()


@pytest.mark.parametrize("name", ["", "A B", "A" * 121, None])
async def test_names_that_no_group_may_have_since_5(name: str | None) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        answer = await peer.ask(GROUP, {"groupName": name})
        assert answer.code == ResponseCode.INVALID_PARAMETER
        lists = {"groupConfigList": [{"groupName": "G"}, {"groupName": name}]}
        answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, lists)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert sandbox.brokers["broker-a"].groups.find("G") is None
        await peer.aclose()


def test_the_question_for_a_group_makes_it_where_that_is_allowed() -> None:
    async def scenario(allowed: str) -> int:
        async with Sandbox(clock=VirtualClock(), settings={"autoCreateSubscriptionGroup": allowed}) as sandbox:
            peer = await Peer.of_broker(sandbox)
            answer = await peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="G")
            bad = await peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="A B")
            assert bad.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            await peer.ask_ok(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="CID_RMQ_SYS_X")  # always
            assert (sandbox.brokers["broker-a"].groups.find("G") is not None) == (allowed == "true")
            await peer.aclose()
            return answer.code

    assert run(scenario("true")) == ResponseCode.SUCCESS
    assert run(scenario("false")) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(("release", "flag"), [("5.4.0", "cleanOffset"), ("4.9.7", "removeOffset")])
async def test_offsets_go_with_a_group_only_when_they_are_asked_for_by_this_releases_name(
    release: str, flag: str
) -> None:
    async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        await peer.ask_ok(GROUP, {"groupName": "G"})
        broker.offsets.store("G", "T", 0, 5)
        for other in {"cleanOffset", "removeOffset"} - {flag}:
            await peer.ask_ok(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", **{other: True})
        assert (broker.groups.find("G"), broker.offsets.find("G", "T", 0)) == (None, 5)
        await peer.ask_ok(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", **{flag: True})
        assert broker.offsets.find("G", "T", 0) is None
        await peer.aclose()


async def test_topics_are_forbidden_one_by_one_and_let_go_all_at_once() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)

        async def forbid(topic: str, **readable: Any) -> bool:
            fields = {"group": "G", "topic": topic, **readable}
            answer = await peer.ask_json(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, **fields)
            return bool(answer["readable"])

        await peer.ask_ok(GROUP, {"groupName": "G"})
        assert await forbid("T")
        assert not await forbid("T", readable=False)
        assert not await forbid("U", readable=False)
        table = await peer.ask_json(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert table["forbiddenTable"] == {"G": {"T": 4, "U": 4}}
        assert await forbid("T", readable=True)
        assert await forbid("U")  # the defect of RocketMQ
        await peer.aclose()


async def test_groups_and_what_they_may_not_read_survive_a_restart() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        await peer.ask_ok(GROUP, {"groupName": "G", "retryMaxTimes": 3})
        await peer.ask_ok(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group="G", topic="T", readable=False)
        broker.state.flush()
        await broker.restart(lose_unflushed=True)
        assert broker.groups.groups["G"]["retryMaxTimes"] == 3
        assert broker.groups.forbidden == {("G", "T")}
        await peer.aclose()
