"""Running groups on scripted clusters, for the tests of what-if: who is there, and what each really holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.command import Command
from rmqctl.whatif.allocation import Trial
from rmqctl.whatif.changes import TrialChanges
from rmqctl.whatif.live_snapshot import LiveSnapshot, fetch_snapshot
from rmqctl.whatif.trials import TrialRequest, try_all
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running, subscribed
from tests.scripted_peer import Reply, passing, run

AVERAGELY = "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely@663be0ea"
CIRCLE = "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle@1"
RETRY = "%RETRY%G"
# Of T there are four queues at broker-a and four at broker-b.
T = [MessageQueue("T", f"broker-{name}", queue_id) for name in "ab" for queue_id in range(4)]
AS_AVERAGELY = {"c1": T[0:3], "c2": T[3:6], "c3": T[6:8]}
AS_CIRCLE = {"c1": [T[0], T[3], T[6]], "c2": [T[1], T[4], T[7]], "c3": [T[2], T[5]]}


def says(
    queues: Sequence[MessageQueue], *, strategy: str = AVERAGELY, topics: Sequence[str] = ("T", RETRY),
    pops: Mapping[Any, int] | None = None, **properties: str,
) -> Command:  # fmt: skip
    """Return what a member says of itself: its queues, with nothing in flight, and how it shares."""
    words = {"allocateMessageQueueStrategy": strategy, "PROP_CONSUMEORDERLY": "false", **properties}
    holds = {mq: held(commit=80) for mq in queues}
    return running(holds, pops, subscriptions=[subscribed(topic) for topic in topics], **words)


def group_cluster(members: Mapping[str, Reply], **settings: Any) -> Cluster:
    """Return two brokers with four queues of T each, of which G has consumed 80 of 100 messages."""
    a, b = BrokerState("broker-a"), BrokerState("broker-b")
    for broker in (a, b):
        broker.topics["T"] = [Queue(100) for _ in range(4)]
        broker.configured.add("G")
        broker.offsets["G"] = {"T": dict.fromkeys(range(4), 80)}
        if members:
            broker.groups["G"] = Group(dict(members), **{"topics": ("T", RETRY), **settings})
    return Cluster(a, b)


def sharing(shares: Mapping[str, Sequence[MessageQueue]] = AS_AVERAGELY, **said: Any) -> Cluster:
    """Return a group whose members hold these queues."""
    return group_cluster({client_id: says(queues, **said) for client_id, queues in shares.items()})


def fetch(cluster: Cluster, *topics: str, sample_s: float = 0, group: str = "G") -> LiveSnapshot:
    """Read the running group while the clock moves on."""

    async def scenario() -> LiveSnapshot:
        async with cluster.client() as client:
            return await passing(cluster.clock, fetch_snapshot(client, group, topics, sample_s=sample_s))

    return run(scenario())


def tried(cluster: Cluster, *strategies: str, sample_s: float = 0, given: Any = None, **changes: Any) -> list[Trial]:
    """Try strategies on the running group, its own without any."""
    question = TrialRequest(fetch(cluster, sample_s=sample_s).snapshot)
    return try_all([question], TrialChanges(**changes), strategies, given or {}, custom={}, resolvers={})


def tried_once(cluster: Cluster, strategy: str | None = None, **settings: Any) -> Trial:
    """Try one strategy on the running group."""
    (trial,) = tried(cluster, *([] if strategy is None else [strategy]), **settings)
    return trial


def codes(trial: Trial) -> list[str]:
    """Return the names of everything that there is to say."""
    return [concern.code for concern in trial.concerns]


def text_of(trial: Trial, code: str) -> str:
    """Return the one sentence under a name."""
    (text,) = (concern.text for concern in trial.concerns if concern.code == code)
    return text


def asked(cluster: Cluster) -> set[int]:
    """Return the codes of all requests that brokers got."""
    return {code for server in cluster.servers.values() for code in server.codes()}
