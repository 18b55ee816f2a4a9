"""Who is in a group, and what its members are told."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.groups.members import ConsumerTable
from rmqctl.sandbox.groups.subscription import SubscriptionData
from rmqctl.sandbox.profile import PROFILES
from tests.sandbox.peer import Peer, consumer_data, subscription

LIST, CONNECTIONS = RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.GET_CONSUMER_CONNECTION_LIST
UNREGISTER, HEART_BEAT = RequestCode.UNREGISTER_CLIENT, RequestCode.HEART_BEAT
PRODUCERS, ALL_PRODUCERS = RequestCode.GET_PRODUCER_CONNECTION_LIST, RequestCode.GET_ALL_PRODUCER_INFO

RELEASES = pytest.mark.parametrize("plays", ["4.9.7", "5.4.0"])


def _sandbox(**options: Any) -> Sandbox:
    return Sandbox(clock=VirtualClock(), **options)


async def _two(sandbox: Sandbox) -> tuple[Peer, Peer]:
    """Connect two members of G, with what they were told so far forgotten."""
    one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
    await one.heartbeat("one", consumer_data("G", subscription("T")))
    await other.heartbeat("other", consumer_data("G", subscription("T")))
    await _pushes(sandbox, one, other)
    return one, other


async def _pushes(sandbox: Sandbox, *peers: Peer) -> list[int]:
    """Return how often each was told of a change since the last time."""
    await sandbox.await_idle()
    counts = []
    for peer in peers:
        assert {push.code for push in peer.pushed} <= {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}
        assert all(push.is_oneway for push in peer.pushed)
        counts.append(len(peer.pushed))
        peer.pushed.clear()
    return counts


async def _ids(peer: Peer, group: str = "G") -> list[str]:
    answer = await peer.ask(LIST, consumerGroup=group)
    if answer.code == ResponseCode.SYSTEM_ERROR:
        assert answer.remark == f"no consumer for this group, {group}"
        return []
    return list((await peer.ask_json(LIST, consumerGroup=group))["consumerIdList"])


async def test_members_are_told_when_one_joins_and_when_one_leaves() -> None:
    async with _sandbox() as sandbox:
        one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await one.heartbeat("one", consumer_data("G", subscription("T")))
        assert await _pushes(sandbox, one, other) == [1, 0]
        await other.heartbeat("other", consumer_data("G", subscription("T")))
        assert await _pushes(sandbox, one, other) == [1, 1]
        await other.heartbeat("other", consumer_data("G", subscription("T")))
        assert await _pushes(sandbox, one, other) == [0, 0]
        assert await _ids(one) == ["one", "other"]
        await other.ask_ok(UNREGISTER, clientID="whoever", consumerGroup="G")
        assert await _pushes(sandbox, one, other) == [1, 0]
        assert await _ids(one) == ["one"]
        # Who is no member can leave all the same, and again the members are told.
        await other.ask_ok(UNREGISTER, clientID="whoever", consumerGroup="G")
        assert await _pushes(sandbox, one, other) == [1, 0]


async def test_members_are_told_when_a_connection_breaks() -> None:
    async with _sandbox() as sandbox:
        one, other = await _two(sandbox)
        await other.aclose()
        assert await _pushes(sandbox, one) == [1]
        assert await _ids(one) == ["one"]
        await one.aclose()
        assert await _ids(await Peer.of_broker(sandbox)) == []


async def test_members_are_told_of_changed_topics_but_not_of_changed_expressions() -> None:
    async with _sandbox() as sandbox:
        one, other = await _two(sandbox)
        await one.heartbeat("one", consumer_data("G", subscription("T", "TagA", version_ms=9)))
        assert await _pushes(sandbox, one, other) == [0, 0]
        await one.heartbeat("one", consumer_data("G", subscription("T"), subscription("T2")))
        assert await _pushes(sandbox, one, other) == [1, 1]
        await other.heartbeat("other", consumer_data("G", subscription("T")))
        assert await _pushes(sandbox, one, other) == [1, 1]


@RELEASES
async def test_broadcasting_members_are_told_by_4_9_only(plays: str) -> None:
    async with _sandbox(plays=plays) as sandbox:
        one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        data = consumer_data("G", subscription("T"), model="BROADCASTING")
        await one.heartbeat("one", data)
        await other.heartbeat("other", data)
        await _pushes(sandbox, other)
        await other.aclose()
        assert await _pushes(sandbox, one) == [3 if plays == "4.9.7" else 0]


async def test_a_group_that_wants_to_be_told_nothing_is_told_of_broken_connections() -> None:
    async with _sandbox() as sandbox:
        groups = sandbox.brokers["broker-a"].groups
        groups.put({**groups.default("G"), "notifyConsumerIdsChangedEnable": False})
        one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await one.heartbeat("one", consumer_data("G", subscription("T")))
        await other.heartbeat("other", consumer_data("G", subscription("T")))
        await other.ask_ok(UNREGISTER, clientID="other", consumerGroup="G")
        assert await _pushes(sandbox, one) == [0]
        await other.heartbeat("other", consumer_data("G", subscription("T")))
        await other.aclose()
        assert await _pushes(sandbox, one) == [1]
        sandbox.brokers["broker-a"].settings.update({"notifyConsumerIdsChangedEnable": "false"})
        third = await Peer.of_broker(sandbox)
        await third.heartbeat("third", consumer_data("G", subscription("T")))
        await third.aclose()
        assert await _pushes(sandbox, one) == [0]


async def test_a_member_without_heartbeats_is_dropped_after_120_s_and_nobody_is_told() -> None:
    """Seen on real brokers: the scan closes the connection of a client that asks other things, and tells no one."""

    async with _sandbox() as sandbox:
        one, other = await _two(sandbox)
        for _ in range(13):
            await one.heartbeat("one", consumer_data("G", subscription("T")))
            assert await _ids(other) == ["one", "other"]
            await sandbox.advance(10)
        assert other.is_closed
        assert await _ids(one) == ["one"]
        assert await _pushes(sandbox, one) == [0]


async def test_a_silent_member_s_connection_is_closed_after_120_s_and_the_others_are_told() -> None:
    async with _sandbox() as sandbox:
        one, other = await _two(sandbox)
        for _ in range(13):
            await one.heartbeat("one", consumer_data("G", subscription("T")))
            await sandbox.advance(10)
        assert other.is_closed
        assert await _ids(one) == ["one"]
        assert await _pushes(sandbox, one) == [1]


async def test_one_client_id_on_two_connections_is_two_members() -> None:
    async with _sandbox() as sandbox:
        one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        for peer in (one, other):
            await peer.heartbeat("same", consumer_data("G", subscription("T")))
        assert await _ids(one) == ["same", "same"]
        await other.aclose()
        assert await _ids(one) == ["same"]
        await one.heartbeat("renamed", consumer_data("G", subscription("T")))
        assert await _ids(one) == ["renamed"]


async def test_the_newest_subscription_rules_and_the_last_heartbeat_says_which_topics() -> None:
    async with _sandbox() as sandbox:
        one, other = await _two(sandbox)

        async def expressions() -> dict[str, str]:
            table = (await one.ask_json(CONNECTIONS, consumerGroup="G"))["subscriptionTable"]
            return {topic: item["subString"] for topic, item in table.items()}

        await one.heartbeat("one", consumer_data("G", subscription("T", "TagA", version_ms=9)))
        await other.heartbeat("other", consumer_data("G", subscription("T", "TagB", version_ms=9)))
        assert await expressions() == {"T": "TagA"}
        await other.heartbeat("other", consumer_data("G", subscription("T", "TagB", version_ms=10)))
        assert await expressions() == {"T": "TagB"}
        await one.heartbeat("one", consumer_data("G", subscription("Else", "TagA", version_ms=1)))
        assert await expressions() == {"Else": "TagA"}
        # The topic was forgotten, and its version with it.
        await one.heartbeat("one", consumer_data("G", subscription("T", "TagA", version_ms=1)))
        assert await expressions() == {"T": "TagA"}


async def test_the_last_heartbeat_says_what_the_group_is() -> None:
    async with _sandbox() as sandbox:
        one, other = await _two(sandbox)
        data = consumer_data(
            "G", subscription("T"), model="BROADCASTING", consumeType="CONSUME_ACTIVELY",
            consumeFromWhere="CONSUME_FROM_TIMESTAMP",
        )  # fmt: skip
        await other.heartbeat("other", data)
        body = await one.ask_json(CONNECTIONS, consumerGroup="G")
        assert body["consumeType"] == "CONSUME_ACTIVELY"
        assert body["messageModel"] == "BROADCASTING"
        assert body["consumeFromWhere"] == "CONSUME_FROM_TIMESTAMP"
        assert [entry["clientId"] for entry in body["connectionSet"]] == ["one", "other"]
        await one.heartbeat("one", consumer_data("G", subscription("T"), consumeType="NONSENSE"))
        assert "consumeType" not in await one.ask_json(CONNECTIONS, consumerGroup="G")
        assert (await one.ask(CONNECTIONS, consumerGroup="None")).code == ResponseCode.CONSUMER_NOT_ONLINE


@RELEASES
async def test_a_heartbeat_makes_the_group_and_its_retry_topic(plays: str) -> None:
    async with _sandbox(plays=plays) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        await peer.heartbeat("one", consumer_data("G", subscription("T"), model="BROADCASTING"))
        assert broker.groups.find("G") == broker.groups.default("G")
        topic = broker.topics.find("%RETRY%G")
        assert topic is not None
        assert (topic.read_queue_count, topic.write_queue_count, topic.perm) == (1, 1, 6)
        await peer.heartbeat("one", consumer_data("not allowed!", subscription("T")))
        assert await _ids(peer, "not allowed!") == (["one"] if plays == "4.9.7" else [])


async def test_a_group_that_may_not_be_made_is_left_out_silently() -> None:
    async with _sandbox(settings={"autoCreateSubscriptionGroup": "false"}) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await peer.heartbeat("one", consumer_data("G", subscription("T")), producers=("P",))
        assert await _ids(peer) == []
        assert len((await peer.ask_json(PRODUCERS, producerGroup="P"))["connectionSet"]) == 1


async def test_pull_consumers_are_left_out_where_they_are_rejected() -> None:
    async with _sandbox(settings={"rejectPullConsumerEnable": "true"}) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await peer.heartbeat("one", consumer_data("G", subscription("T"), consumeType="CONSUME_ACTIVELY"))
        assert await _ids(peer) == []
        await peer.heartbeat("one", consumer_data("G", subscription("T")))
        assert await _ids(peer) == ["one"]


async def test_heartbeats_with_a_fingerprint_can_leave_subscriptions_out() -> None:
    async with _sandbox() as sandbox:
        one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)

        async def beat(peer: Peer, fingerprint: int, *topics: str) -> str:
            data = consumer_data("G", *map(subscription, topics))
            body = {
                "clientID": "one", "consumerDataSet": [data], "producerDataSet": [],
                "heartbeatFingerprint": fingerprint, "withoutSub": not topics,
            }  # fmt: skip
            answer = await peer.ask_ok(HEART_BEAT, body)
            assert answer.ext_fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
            return answer.ext_fields["IS_SUB_CHANGE"]

        assert await beat(one, 5, "T") == "false"
        assert await beat(one, 5) == "false"
        group = sandbox.brokers["broker-a"].consumers.find("G")
        assert group is not None
        assert list(group.subscriptions) == ["T"]
        assert await beat(other, 6, "T", "T2") == "true"
        assert await beat(one, 5) == "true"
        assert sorted(group.subscriptions) == ["T", "T2"]
        # Without a fingerprint subscriptions always count, also when none are named.
        assert await beat(one, 0) == "true"
        assert group.subscriptions == {}


async def test_4_9_knows_no_fingerprints() -> None:
    async with _sandbox(plays="4.9.7") as sandbox:
        peer = await Peer.of_broker(sandbox)
        await peer.heartbeat("one", consumer_data("G", subscription("T")))
        body = {
            "clientID": "one", "consumerDataSet": [consumer_data("G")], "producerDataSet": [],
            "heartbeatFingerprint": 5, "withoutSub": True,
        }  # fmt: skip
        assert (await peer.ask_ok(HEART_BEAT, body)).ext_fields == {}
        group = sandbox.brokers["broker-a"].consumers.find("G")
        assert group is not None
        assert group.subscriptions == {}


async def test_producers_are_listed_by_group() -> None:
    async with _sandbox() as sandbox:
        one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox, version=407, language="CPP")
        await one.heartbeat("one", producers=("P", "Q"))
        await other.heartbeat("other", producers=("P",))
        assert (await one.ask_json(PRODUCERS, producerGroup="P"))["connectionSet"] == [
            {"clientAddr": "client", "clientId": "one", "language": "JAVA", "version": 493},
            {"clientAddr": "client", "clientId": "other", "language": "CPP", "version": 407},
        ]
        data = (await one.ask_json(ALL_PRODUCERS))["data"]
        assert {name: [item["clientId"] for item in items] for name, items in data.items()} == {
            "P": ["one", "other"], "Q": ["one"],
        }  # fmt: skip
        assert data["Q"][0]["lastUpdateTimestamp"] == sandbox.brokers["broker-a"].now_ms()
        await other.ask_ok(UNREGISTER, clientID="other", producerGroup="P")
        await one.aclose()
        await sandbox.await_idle()
        assert await other.ask_json(ALL_PRODUCERS) == {"data": {}}
        answer = await other.ask(PRODUCERS, producerGroup="P")
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "the producer group[P] not exist")


@pytest.mark.parametrize(
    "body",
    [b"", b"nonsense", b"[]", b'{"consumerDataSet":5}', b'{"consumerDataSet":[5]}', b'{"consumerDataSet":[{}]}',
     b'{"producerDataSet":[{"groupName":null}]}'],
)  # fmt: skip
async def test_a_heartbeat_that_makes_no_sense_is_refused(body: bytes) -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        assert (await peer.ask(HEART_BEAT, body)).code == ResponseCode.SYSTEM_ERROR
        assert (await peer.heartbeat("one")).code == ResponseCode.SUCCESS


def test_what_pulls_wanted_is_not_kept_when_they_end() -> None:
    now_s = [0.0]
    consumers = ConsumerTable(lambda: now_s[0], PROFILES["5.4.0"])
    tracemalloc.start()
    for number in range(500):
        consumers.note_pulled(f"G{number}", SubscriptionData("T", "*"), 1)
    now_s[0] = 500.0
    consumers.note_pulled("G", SubscriptionData("T", "*"), 1)
    full_bytes = tracemalloc.get_traced_memory()[0]
    now_s[0] = 601.0
    consumers.drop_expired_pulls()
    left_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left_bytes < full_bytes / 2
    assert consumers.find_subscription("G", "T") is not None
