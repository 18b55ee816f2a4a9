"""A broker's settings and what it says of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmqctl.admin.brokers.rules.runtime_table import read_runtime
from rmqctl.errors import UsageError
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.java_json import loads
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.profile import PROFILES, find_profile
from rmqctl.sandbox.settings import obeyed_names
from rmqctl.sandbox.storage.store import NewMessage
from tests.docs import DOCS
from tests.sandbox.peer import Peer
from tests.sandbox.sender import send
from tests.scripted_peer import run

# 2027-01-15T08:00:00Z, so that midnight is 16 h ahead.
MORNING_MS = 1_800_000_000_000
HOUR_S = 3600


async def settings(peer: Peer) -> dict[str, str]:
    answer = await peer.ask_ok(RequestCode.GET_BROKER_CONFIG)
    return dict(line.split("=", 1) for line in answer.body.decode().splitlines())


def put(sandbox: Sandbox, count: int) -> None:
    for _ in range(count):
        sandbox.brokers["broker-a"].put(NewMessage("T", 0, b"x" * 100))


async def test_settings_are_changed_where_the_value_can_be_read() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        first = json.loads((await peer.ask_ok(RequestCode.GET_BROKER_CONFIG)).ext_fields["version"])["counter"]
        text = b"# a comment\nfileReservedTime = 5\nlongPollingEnable=no\nmaxMessageSize=x\nflushDiskType=x\n"
        await peer.ask_ok(RequestCode.UPDATE_BROKER_CONFIG, text)
        after = await settings(peer)
        assert (after["fileReservedTime"], after["longPollingEnable"]) == ("5", "false")
        assert (after["maxMessageSize"], after["flushDiskType"]) == ("4194304", "ASYNC_FLUSH")
        counter = json.loads((await peer.ask_ok(RequestCode.GET_BROKER_CONFIG)).ext_fields["version"])["counter"]
        assert counter == first + 1
        await peer.aclose()


async def test_settings_of_the_black_list_and_those_it_does_not_obey_are_refused_with_all_that_comes_along() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        for name, code in (
            ("brokerConfigPath", ResponseCode.NO_PERMISSION),
            ("messageDelayLevel", ResponseCode.INVALID_PARAMETER),
            ("maxMessageSize", ResponseCode.INVALID_PARAMETER),
            ("deleteWhen", ResponseCode.INVALID_PARAMETER),
            ("sendMessageThreadPoolNums", ResponseCode.INVALID_PARAMETER),
        ):
            answer = await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, f"fileReservedTime=5\n{name}=1\n".encode())
            assert answer.code == code
            assert (await settings(peer))["fileReservedTime"] == "72"
        await peer.aclose()


@pytest.mark.parametrize("plays", PROFILES)
async def test_topics_that_sends_create_are_switched_off_at_run_time(tmp_path: Path, plays: str) -> None:
    off = b"autoCreateTopicEnable=false\n"
    async with Sandbox(clock=VirtualClock(), plays=plays, dir=tmp_path) as sandbox:
        peer = await Peer.of_broker(sandbox)
        assert (await send(peer, "before", b"m")).code == ResponseCode.SUCCESS
        await peer.ask_ok(RequestCode.UPDATE_BROKER_CONFIG, off)
        assert (await send(peer, "after", b"m")).code == ResponseCode.TOPIC_NOT_EXIST
        assert sandbox.brokers["broker-a"].topics.topics["TBW102"].perm == 6
        assert (await send(peer, "before", b"m")).code == ResponseCode.SUCCESS
        await peer.aclose()
    # As it was changed, unless the start says otherwise; TBW102 keeps its permission.
    for given, expected in (({}, "false"), ({"autoCreateTopicEnable": "true"}, "true"), ({}, "false")):
        async with Sandbox(clock=VirtualClock(), plays=plays, dir=tmp_path, settings=given) as sandbox:
            assert sandbox.brokers["broker-a"].settings.text("autoCreateTopicEnable") == expected
            assert sandbox.brokers["broker-a"].topics.topics["TBW102"].perm == 6


@pytest.mark.parametrize(("given", "sentence", "hint"), [
    ({"enablePropertyFiltre": "true"}, "enablePropertyFiltre is not a setting", "enablePropertyFilter"),
    ({"deleteWhen": "05"}, "deleteWhen is not a setting", None),
    ({"recallMessageEnable": "yes"}, "Invalid value 'yes' of the setting recallMessageEnable", "true or false"),
    ({"maxMessageSize": "4MB"}, "Invalid value '4MB' of the setting maxMessageSize", "a number"),
    ({"maxMessageSize": "9"}, "Invalid value '9'", "a number"),
    ({"messageDelayLevel": "1s bad"}, "Invalid value '1s bad'", "levels such as"),
    ({"timerPrecisionMs": "250"}, "Invalid value '250'", "100, 200, 500 or 1000"),
    ({"flushDiskType": "NONE"}, "Invalid value 'NONE'", "ASYNC_FLUSH or SYNC_FLUSH"),
])  # fmt: skip
def test_settings_of_the_start_are_checked(given: dict[str, str], sentence: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as refused:
        Sandbox(settings=given)
    assert sentence in refused.value.sentence
    assert hint is None or hint in (refused.value.hint or "")


def test_a_setting_belongs_to_its_release() -> None:
    Sandbox(plays="5.4.0", settings={"timerWheelEnable": "false"})
    with pytest.raises(UsageError, match="timerWheelEnable is not a setting that the sandbox obeys"):
        Sandbox(plays="4.9.7", settings={"timerWheelEnable": "false"})


@pytest.mark.parametrize("plays", PROFILES)
def test_the_manual_lists_what_is_obeyed(plays: str) -> None:
    text = (DOCS / "sandbox.md").read_text()
    reported = Sandbox(plays=plays).brokers["broker-a"].settings.as_dict()
    for name in reported:
        assert (f"`{name}`" in text) == (name in obeyed_names(find_profile(plays)))


def test_like_default_differs_where_the_sandbox_does() -> None:
    plain, default = (Sandbox(like_default=is_like).brokers["broker-a"].settings.as_dict() for is_like in (False, True))
    assert {name for name in plain if plain[name] != default[name]} == {"enablePropertyFilter"}
    assert default["enablePropertyFilter"] == "false"


@pytest.mark.parametrize(("wanted", "taken"), [(0, "100"), (7, "100"), (250, "200"), (999, "500"), (5000, "1000")])
async def test_the_precision_of_timers_is_the_next_smaller_one(wanted: int, taken: str) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await peer.ask_ok(RequestCode.UPDATE_BROKER_CONFIG, f"timerPrecisionMs={wanted}".encode())
        assert (await settings(peer))["timerPrecisionMs"] == taken
        await peer.aclose()


async def test_the_brokers_permission_reaches_the_routes_at_once() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, names = await Peer.of_broker(sandbox), await Peer.of_name_server(sandbox)

        async def perm() -> int:
            route = await names.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="BenchmarkTest")
            return int(route["queueDatas"][0]["perm"])

        await peer.ask_ok(RequestCode.UPDATE_BROKER_CONFIG, b"brokerPermission=4\n")
        assert await perm() == 4
        await peer.ask_ok(RequestCode.UPDATE_BROKER_CONFIG, b"brokerPermission=6\n")
        assert await perm() == 6
        sandbox.brokers["broker-a"].refuse_writes()
        assert await perm() == 4
        await peer.aclose()
        await names.aclose()


async def test_delay_levels_are_changed_by_a_restart_only() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        await peer.ask_ok(RequestCode.UPDATE_BROKER_CONFIG, b"messageDelayLevel=1s 5s\n")
        assert (await settings(peer))["messageDelayLevel"] == "1s 5s"
        assert broker.delays.level_count == 18
        await broker.restart()
        assert broker.delays.level_count == 2
        await peer.aclose()


async def test_runtime_tells_of_messages_by_day_and_by_second() -> None:
    evening_ms = MORNING_MS + 15 * HOUR_S * 1000
    clock = VirtualClock(evening_ms)
    async with Sandbox(clock=clock) as sandbox:

        async def runtime() -> Any:
            peer = await Peer.of_broker(sandbox)
            body = (await peer.ask_ok(RequestCode.GET_BROKER_RUNTIME_INFO)).body
            await peer.aclose()
            return read_runtime(loads(body)["table"], message_delay_level="")

        put(sandbox, 20)
        await sandbox.advance(11)
        put(sandbox, 30)
        await sandbox.advance(10)
        seen = await runtime()
        assert (seen.put_today_count, seen.put_yesterday_count, seen.version) == (50, 0, "V5_4_0")
        assert round(seen.put_tps.last_10s, 1) == 3.0
        assert seen.uptime_ms == 21_000
        assert seen.earliest_message_at_ms == evening_ms
        await sandbox.advance(HOUR_S)
        put(sandbox, 5)
        seen = await runtime()
        assert (seen.put_today_count, seen.put_yesterday_count) == (5, 50)


def test_runtime_has_the_numbers_that_mqadmin_needs() -> None:
    async def scenario(release: str) -> dict[str, str]:
        async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
            peer = await Peer.of_broker(sandbox)
            table = (await peer.ask_json(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            await peer.aclose()
            return dict(table)

    both = (
        "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow", "msgGetTotalYesterdayMorning",
        "msgGetTotalTodayMorning", "msgGetTotalTodayNow", "sendThreadPoolQueueSize", "pullThreadPoolQueueSize",
        "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills",
        "earliestMessageTimeStamp", "commitLogDiskRatio",
    )  # fmt: skip
    since_5 = ("timerReadBehind", "timerOffsetBehind", "timerCongestNum", "ackThreadPoolQueueSize")
    new, old = run(scenario("5.4.0")), run(scenario("4.9.7"))
    for name in both:
        float(new[name])
        float(old[name])
    for name in since_5:
        float(new[name])
        assert name not in old
    assert (new["getTransferredTps"], old["getTransferedTps"]) == ("0.0 0.0 0.0", "0.0 0.0 0.0")
    assert new["brokerActive"] == "true"
    assert old["brokerVersion"] == "407"
