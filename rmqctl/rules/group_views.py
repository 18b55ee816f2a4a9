"""Combine what brokers and clients report on one group, and find where they differ; no difference is hidden."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from math import isfinite

from rmqctl.model.group import (
    GroupConfig,
    GroupConnections,
    MemberView,
    RunningInfo,
    Subscription,
    SubscriptionView,
    TopicConsumeStatus,
)
from rmqctl.model.names import RETRY_PREFIX

from .allocate import strategy_of_class


def member_views(
    connections: Mapping[str, GroupConnections | None],
    running: Mapping[str, RunningInfo],
    topic_brokers: Mapping[str, Collection[str]],
) -> tuple[MemberView, ...]:
    """Return one view per client id, sorted.

    `connections` are by broker that answered, None where no member is connected; `topic_brokers` names the brokers of
    each topic. Every broker of a client's topics should list the client, because any of them may be asked for the
    members (MQClientInstance.findConsumerIdList). The client does not connect to other brokers.
    """
    addresses: dict[str, dict[str, list[str]]] = {}
    languages: dict[str, set[str]] = {}
    versions: dict[str, set[int]] = {}
    for broker_name, found in connections.items():
        for member in found.members if found is not None else ():
            addresses.setdefault(member.client_id, {}).setdefault(broker_name, []).append(member.client_address)
            languages.setdefault(member.client_id, set()).add(member.language)
            versions.setdefault(member.client_id, set()).add(member.version)
    all_topics = {topic for found in connections.values() if found is not None for topic in found.subscriptions}
    views = []
    for client_id, by_broker in sorted(addresses.items()):
        own = {item.topic for item in running[client_id].subscriptions} if client_id in running else set()
        wanted = {
            broker_name
            for topic in own or all_topics
            if not topic.startswith(RETRY_PREFIX)
            for broker_name in topic_brokers.get(topic, ())
        }
        views.append(
            MemberView(
                client_id=client_id,
                addresses={name: tuple(sorted(at)) for name, at in sorted(by_broker.items())},
                unseen_at=tuple(sorted(wanted & set(connections) - set(by_broker))),
                languages=tuple(sorted(languages[client_id])),
                versions=tuple(sorted(versions[client_id])),
                untold_at=tuple(sorted(wanted - set(connections))),
            )
        )
    return tuple(views)


def subscription_views(
    group: str, connections: Mapping[str, GroupConnections | None], running: Mapping[str, RunningInfo]
) -> tuple[SubscriptionView, ...]:
    """Return one view per topic and filter that any broker or client reports, sorted; without the retry topic.

    Brokers keep one subscription per topic, the newest; each client has its own. They agree when every client that
    answered, and every broker with members, reports the topic with the same filter.
    """
    at_brokers = {
        name: dict(found.subscriptions) for name, found in connections.items() if found is not None and found.members
    }
    at_clients = {
        client_id: {item.topic: item for item in info.subscriptions}
        for client_id, info in running.items()
        if info.subscriptions
    }
    every = [item for table in (*at_brokers.values(), *at_clients.values()) for item in table.values()]
    topics = {item.topic for item in every} - {f"{RETRY_PREFIX}{group}"}
    views = []
    for topic in sorted(topics):
        filters = {item.filter_key for item in every if item.topic == topic}
        lacking_brokers = tuple(sorted(name for name, table in at_brokers.items() if topic not in table))
        lacking_clients = tuple(sorted(name for name, table in at_clients.items() if topic not in table))
        agrees: bool | None = len(filters) == 1 and not lacking_brokers and not lacking_clients
        if agrees and not at_clients:
            agrees = None  # brokers keep what the last client reported: unknown unless a client itself answers
        for key in sorted(filters):
            broker_names = _holders(at_brokers, topic, key)
            client_ids = _holders(at_clients, topic, key)
            held = [at_brokers[name][topic] for name in broker_names] + [at_clients[name][topic] for name in client_ids]
            newest = max(held, key=lambda item: item.version_ms)
            views.append(
                SubscriptionView(newest, broker_names, client_ids, lacking_brokers, lacking_clients, agrees=agrees)
            )
    return tuple(views)


def _holders(tables: Mapping[str, Mapping[str, Subscription]], topic: str, key: tuple[str, str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, table in tables.items() if topic in table and table[topic].filter_key == key))


def differing_fields(configs: Iterable[GroupConfig]) -> tuple[str, ...]:
    """Return the names of settings whose values are not the same in all configurations, sorted.

    A setting that an older broker does not know is not a difference.
    """
    each = list(configs)
    # The common case.
    if all(config == each[0] for config in each):
        return ()
    known: dict[str, list[object]] = {}
    for config in each:
        for name, value in {**config.fields, "forbiddenTopics": list(config.forbidden_topics)}.items():
            known.setdefault(name, []).append(value)
    return tuple(sorted(name for name, values in known.items() if any(value != values[0] for value in values)))


def strategy_name(info: RunningInfo) -> str | None:
    """Return a client's strategy, from `...AllocateMessageQueueAveragely@1b2c`; an unknown class by its name."""
    text = info.properties.get("allocateMessageQueueStrategy", "")
    # The number and address of a lambda differ per JVM: two clients of one program would seem to differ.
    name = re.split(r"[@\s]|\$\$Lambda", text)[0].rpartition(".")[2]
    return strategy_of_class(name) or name or None


def total_status(statuses: Iterable[TopicConsumeStatus]) -> TopicConsumeStatus | None:
    """Sum up the rates of a client's topics; times are means weighted by rate, or the longest where all rates are 0."""
    each = list(statuses)
    if not each:
        return None
    done = [status.consume_ok_tps + status.consume_failed_tps for status in each]
    return TopicConsumeStatus(
        pull_rt_ms=_mean([status.pull_rt_ms for status in each], [status.pull_tps for status in each]),
        pull_tps=sum(status.pull_tps for status in each),
        consume_rt_ms=_mean([status.consume_rt_ms for status in each], done),
        consume_ok_tps=sum(status.consume_ok_tps for status in each),
        consume_failed_tps=sum(status.consume_failed_tps for status in each),
        consume_failed_count=sum(status.consume_failed_count for status in each),
    )


def consume_rt_ms(info: RunningInfo) -> float | None:
    """Return the average time of a client's listener in the last minute, None if it consumed nothing."""
    total = total_status(info.statuses.values())
    if total is None or not total.consume_ok_tps + total.consume_failed_tps:
        return None
    # A client whose clock went back reports a negative time.
    return total.consume_rt_ms if isfinite(total.consume_rt_ms) and total.consume_rt_ms >= 0 else None


def _mean(values: list[float], weights: list[float]) -> float:
    total = sum(weights)
    if total <= 0:
        return max(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total
