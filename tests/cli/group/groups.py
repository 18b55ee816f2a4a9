"""Clusters for the tests of the commands about one group, and ways to show what they say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from rmqctl.admin.group_details import fetch_group_details
from rmqctl.admin.groups.config import fetch_group_configs
from rmqctl.admin.groups.members import fetch_group_members
from rmqctl.cli.diagnose import run as diagnose
from rmqctl.cli.group import config, describe, members, subscriptions
from rmqctl.cli.output.listing import Listing
from rmqctl.client.core import Client
from rmqctl.diagnose.diagnosis import diagnose_groups
from rmqctl.diagnose.table import CHECKS
from tests.admin.cluster import ON_TIME, BrokerState, Cluster, Group, Queue, held, rates, running, subscribed
from tests.scripted_peer import SILENCE, V5_4_0, passing, run

_T = TypeVar("_T")

STRATEGY = "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely"
WORDS = {
    "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
    "messageModel": "CLUSTERING",
    "PROP_CONSUMEORDERLY": "false",
    "PROP_CONSUMER_START_TIMESTAMP": "1795238000000",
    "allocateMessageQueueStrategy": f"{STRATEGY}@663be0ea",
    "consumeThreadMax": "20",
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    "maxReconsumeTimes": "-1",
    "consumeTimeout": "15",
    "pullInterval": "0",
    "PROP_NAMESERVER_ADDR": "ns:1;ns2:1;",
}


def healthy(version: int = V5_4_0) -> Cluster:
    """Return two brokers with two queues of T each, which the two members of G share; all agree, and 25 are unread."""
    a, b = (BrokerState(f"broker-{name}", version, tells_time=True) for name in "ab")
    own = {}
    for client_id, name in (("c1", "broker-a"), ("c2", "broker-b")):
        holds = {("T", name, 0): held(25, 75, 99, 75, **ON_TIME), ("T", name, 1): held(commit=100, **ON_TIME)}
        told = [subscribed("T"), subscribed("%RETRY%G")]
        statuses = {"T": rates(2.5, 0.5, 12.25, 3)}
        own[client_id] = running(holds, subscriptions=told, statuses=statuses, **WORDS)
    for broker in (a, b):
        broker.topics |= {"T": [Queue(100), Queue(100)], "%RETRY%G": [Queue()]}
        broker.configured.add("G")
        broker.groups["G"] = Group(own, ("T", "%RETRY%G"), client_version=version)
        broker.offsets["G"] = {"T": {0: 75, 1: 100}}
    return Cluster(a, b)


def torn() -> Cluster:
    """Return two brokers and three members that agree on nothing; one of the members is silent."""
    a, b = BrokerState("broker-a"), BrokerState("broker-b")
    circle = {**WORDS, "allocateMessageQueueStrategy": f"{STRATEGY}ByCircle@1"}
    own = {
        "c1": running({("T", "broker-a", 0): held(commit=50)}, subscriptions=[subscribed("T", "A || B")], **WORDS),
        "c2": running(subscriptions=[subscribed("T", "A"), subscribed("U")], **circle),
    }
    for broker in (a, b):
        broker.topics |= {"T": [Queue(100, 40), Queue(100)], "U": [Queue(10)]}
    a.configured.add("G")
    a.group_configs["G"] = {"consumeEnable": False, "retryQueueNums": 0}
    a.forbidden["G"] = {"T": 4}
    a.topics["%DLQ%G"] = [Queue(3)]
    a.offsets["G"] = {"T": {0: 20, 1: 60}}
    a.groups["G"] = Group(
        {**own, "cpp": SILENCE},
        subscriptions={"T": subscribed("T", "B||A", 1_795_238_115_999)},
        languages={"cpp": "CPP"},
        addresses={"c2": ["192.0.2.2:50000", "192.0.2.9:50001"]},
    )
    b.groups["G"] = Group(
        {"c1": own["c1"]}, ("U",), consume_from_where="CONSUME_FROM_FIRST_OFFSET", message_model="CLUSTERING"
    )
    return Cluster(a, b)


def torn_config() -> Cluster:
    """Return three brokers with differing configurations of G, one of them without any."""
    cluster = torn()
    a, b = cluster.brokers.values()
    old = BrokerState("broker-c", 407, configured={"G"}, topics=b.topics)
    return Cluster(a, b, old)


def offline() -> Cluster:
    """Return two brokers that know G, which has no members and has never consumed."""
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.groups.clear()
        broker.offsets.clear()
    return cluster


def ask(cluster: Cluster, question: Callable[[Client], Awaitable[_T]], *, open_ended: bool = False) -> _T:
    """Ask a scripted cluster while its clock moves on."""

    async def scenario() -> _T:
        async with cluster.client(open_ended=open_ended) as client:

            async def asking() -> _T:
                return await question(client)

            return await passing(cluster.clock, asking(), limit_s=120)

    return run(scenario())


def show_members(cluster: Cluster, group: str = "G") -> Listing:
    """Return what `group members` shows."""
    return members.to_listing(ask(cluster, lambda client: fetch_group_members(client, group)))


def show_subscriptions(cluster: Cluster, group: str = "G") -> Listing:
    """Return what `group subscriptions` shows."""
    return subscriptions.to_listing(ask(cluster, lambda client: fetch_group_members(client, group)))


def show_config(cluster: Cluster, group: str = "G") -> Listing:
    """Return what `group config` shows."""
    return config.to_listing(ask(cluster, lambda client: fetch_group_configs(client, group)))


def show_details(cluster: Cluster, *groups: str) -> Listing:
    """Return what `group describe` shows."""
    found = [ask(cluster, lambda client, name=group: fetch_group_details(client, name)) for group in groups or ("G",)]
    return describe.to_listing(found)


def show_diagnosis(cluster: Cluster, group: str = "G") -> Listing:
    """Return what `diagnose` shows after one look."""
    return diagnose.to_listing(ask(cluster, lambda client: diagnose_groups(client, [group], (), CHECKS)), CHECKS)


SHOWN: dict[str, Callable[[Cluster], Listing]] = {
    "group members": show_members,
    "group subscriptions": show_subscriptions,
    "group config": show_config,
    "group describe": show_details,
    "diagnose": show_diagnosis,
}
