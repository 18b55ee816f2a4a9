"""Facts derived from a topic's name, its permissions, and the reports of brokers and name servers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rmqctl.model.names import DELAY_TOPIC, TIMER_TOPIC, is_system_topic
from rmqctl.model.route import BrokerData, ClusterInfo, QueueData
from rmqctl.model.topic import READ, WRITE, TopicConfig, TopicFinding, TopicKind

_INHERIT = 1  # PermName: new topics inherit from this one

_DELAY_TOPICS = frozenset({DELAY_TOPIC, TIMER_TOPIC})
_KINDS = (("%RETRY%", TopicKind.RETRY), ("%DLQ%", TopicKind.DEAD_LETTER), ("%LMQ%", TopicKind.LIGHT))


def own_topics(cluster: ClusterInfo) -> frozenset[str]:
    """Return the topics that brokers create under their own and their cluster's name."""
    names = {name for broker in cluster.brokers for name in (broker.broker_name, broker.cluster)}
    return frozenset(names | {f"{broker.cluster}_REPLY_TOPIC" for broker in cluster.brokers})


def kind_of(topic: str, own: Collection[str] = ()) -> TopicKind:
    """Return a topic's kind; `own` are the topics of `own_topics`."""
    for prefix, kind in _KINDS:
        if topic.startswith(prefix):
            return kind
    if topic in _DELAY_TOPICS:
        return TopicKind.DELAY
    if topic in own or is_system_topic(topic):
        return TopicKind.SYSTEM
    return TopicKind.NORMAL


def permission_words(perm: int) -> str:
    """Return permission bits in words."""
    words = {READ | WRITE: "read-write", READ: "read-only", WRITE: "write-only"}
    return words.get(perm & (READ | WRITE), "none") + (", inherited" if perm & _INHERIT else "")


def config_findings(configs: Iterable[TopicConfig]) -> list[TopicFinding]:
    """Return the findings on the brokers' configurations of one topic."""
    given = list(configs)
    found = []
    if len({(config.read_queue_count, config.write_queue_count) for config in given}) > 1:
        found.append(TopicFinding.QUEUES_DIFFER)
    if len({config.perm for config in given}) > 1:
        found.append(TopicFinding.PERMISSIONS_DIFFER)
    if len({(config.is_ordered, tuple(sorted(config.attributes.items()))) for config in given}) > 1:
        found.append(TopicFinding.ATTRIBUTES_DIFFER)
    if any(config.write_queue_count > config.read_queue_count for config in given):
        found.append(TopicFinding.UNREAD_QUEUES)
    return found


def route_findings(data: QueueData, broker: BrokerData | None) -> list[TopicFinding]:
    """Return the findings on one broker's part of a route; `broker` None: the route has no address of it."""
    found = []
    if broker is None or not broker.addresses:
        found.append(TopicFinding.NO_ADDRESS)
    elif broker.master_address is None:
        found.append(TopicFinding.NO_MASTER)
    if not data.is_readable:
        found.append(TopicFinding.NOT_READABLE)
    if not data.is_writable:
        found.append(TopicFinding.NOT_WRITABLE)
    if data.write_queue_count > data.read_queue_count:
        found.append(TopicFinding.UNREAD_QUEUES)
    elif data.write_queue_count < data.read_queue_count:
        found.append(TopicFinding.UNWRITTEN_QUEUES)
    return found


def compare_with_route(
    configs: Mapping[str, TopicConfig | None], route: Mapping[str, QueueData]
) -> dict[str, TopicFinding]:
    """Return where a route and brokers disagree, by broker name. A config None: the broker lacks the topic."""
    found = {}
    for name, config in configs.items():
        data = route.get(name)
        if config is None:
            if data is not None:
                found[name] = TopicFinding.NOT_ON_BROKER
        elif data is None:
            found[name] = TopicFinding.NOT_IN_ROUTE
        elif config.queues_and_perm() != (data.read_queue_count, data.write_queue_count, data.perm):
            found[name] = TopicFinding.ROUTE_DIFFERS
    return found
