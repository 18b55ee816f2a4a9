"""Find the retry topics of a group, which brokers only report when it has an offset in them or members."""

from __future__ import annotations

from collections.abc import Collection

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.admin.rules.retry_topics import own_retry_topics
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.names import RETRY_PREFIX


async def with_retry_topics(
    client: Client, group: str, topics: Collection[str], failures: list[Failure]
) -> frozenset[str]:
    """Return the topics of a group and its retry topics; if those cannot be read, add a failure."""
    try:
        return await find_retry_topics(client, group, topics) | frozenset(topics)
    except RmqctlError as error:
        failures.append(Failure(None, "names of topics", error))
        return frozenset(topics)


async def find_retry_topics(
    client: Client, group: str, topics: Collection[str], *, is_popping: bool = False
) -> frozenset[str]:
    """Return the existing retry topics of a group that consumes these topics.

    Reads the names of all topics from the name servers, once. Raises the errors of Client.topic_names().
    """
    known = frozenset(await client.topic_names())
    found = own_retry_topics(group, topics, known)
    if is_popping or found <= {RETRY_PREFIX + group}:
        return found
    brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
    tables = await fetch_configs(client, brokers)
    return own_retry_topics(group, topics, known, {name for table in tables.ok.values() for name in table})
