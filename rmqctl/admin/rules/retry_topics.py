"""Which retry topics belong to a group."""

from __future__ import annotations

from collections.abc import Collection, Container

from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX, is_pop_retry_topic, pop_retry_topics


def own_retry_topics(
    group: str, topics: Collection[str], known: Collection[str], other_groups: Container[str] = ()
) -> frozenset[str]:
    """Return the group's retry topics among those that exist: its own, and one per topic that its members pop.

    Messages there are the group's even without an offset. A pop retry topic's older form of name can also be the retry
    topic of another group; then it belongs to that group.
    """
    names = {RETRY_PREFIX + group}
    for topic in topics:
        if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            names.update(
                name for name in pop_retry_topics(group, topic) if name.removeprefix(RETRY_PREFIX) not in other_groups
            )
    return frozenset(names.intersection(known))


def owner_of_retry_topic(topic: str, groups: Collection[str], topics: Collection[str]) -> str | None:
    """Return the group whose failed messages a topic stores, None when the topic does not belong to a known group."""
    if not topic.startswith(RETRY_PREFIX):
        return None
    name = topic.removeprefix(RETRY_PREFIX)
    if name in groups:
        return name
    popping = [group for group in groups if name.startswith(group) and is_pop_retry_topic(group, topic, topics)]
    return max(popping, key=len, default=None)
