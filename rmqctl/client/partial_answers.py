"""Find what makes the answers of a run partial, in addition to servers that failed to answer."""

from __future__ import annotations

from collections.abc import Collection

from rmqctl.client.rules.address_map import unmatched_keys
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import SLAVE_ANSWERED, Failure
from rmqctl.model.route import ClusterInfo
from rmqctl.rules.cluster_memory import may_hold, not_registered, only_routed
from rmqctl.text.words import listed

from .core import Client
from .duplicates import find_duplicates


async def find_partial(client: Client) -> list[Failure]:
    """Return the failures that make this client's answers partial.

    They are name servers that omit something, brokers with the same name, masters whose slave answered, brokers that
    only routes name, and missing brokers that may have queues of the requested topics. A broker that only a silent name
    server knows is found missing by the memory of the cluster.
    """
    differences = await find_duplicates(client)  # the worst comes first: some outputs have room for one
    differences += client.name_server_views.differences()
    differences += slave_failures(client)
    now_ms = client.clock.now_ms()
    differences += [
        Failure(name, f"queues of {listed(sorted(topics))}", not_registered(only_routed(name, topics), now_ms))
        for name, topics in sorted(client.only_routed.items())
    ]
    if client.sightings.topics and client.expectation.brokers:
        try:
            differences += _unreported_queues(client, await client.cluster())
        except RmqctlError as error:
            # The request itself was answered; only the list of brokers was not.
            differences.append(Failure(None, "brokers", error))
    return differences


def slave_failures(client: Client) -> list[Failure]:
    """Return a failure for each master whose slave answered instead: the slave's offsets can be 10 s old."""
    return [Failure(name, SLAVE_ANSWERED, error) for name, error in sorted(client.silent_masters.items())]


async def find_silent_servers(client: Client, topic: str | None = None) -> dict[str, RmqctlError]:
    """Return by name the servers whose topics and groups are unknown.

    They are silent name servers, missing brokers, and masters whose slave answered: it may lack what they have.
    With a topic, only the missing brokers that may have queues of it.
    """
    # A name server that is silent now may have answered an earlier request for topics.
    unreported: dict[str, RmqctlError] = {**client.name_server_views.silent, **client.silent_masters}
    return unreported | missing_brokers(client, await client.cluster(), None if topic is None else [topic])


def missing_brokers(client: Client, cluster: ClusterInfo, topics: Collection[str] | None) -> dict[str, RmqctlError]:
    """Return by name the missing brokers that may have queues of these topics, or all without topics."""
    return {
        broker.broker_name: not_registered(broker, client.clock.now_ms())
        for broker in cluster.missing
        if topics is None or any(may_hold(topic, broker.broker_name, client.expectation) for topic in topics)
    }


async def find_unmatched(client: Client, others: Collection[str]) -> tuple[list[str], ClusterInfo]:
    """Return the keys of the client's address map that no broker has registered, and the cluster.

    `others` are addresses that a map may name as well. Returns no keys when the cluster cannot be asked: the command
    itself will report that.
    """
    try:
        cluster = await client.cluster()
    except RmqctlError:
        return [], ClusterInfo(())
    known = {*client.name_servers, *others}
    return unmatched_keys(client.addresses.mapped, cluster, client.expectation, known), cluster


def _unreported_queues(client: Client, cluster: ClusterInfo) -> list[Failure]:
    """Return a failure per missing broker that may have queues of topics that are not in the memory."""
    unknown = [topic for topic in client.sightings.topics if topic not in client.expectation.topics]
    if not unknown:
        return []
    now_ms = client.clock.now_ms()
    return [
        Failure(broker.broker_name, f"queues of {listed(unknown)}, if it has any", not_registered(broker, now_ms))
        for broker in cluster.missing
    ]


def silence_words(client: Client) -> list[str]:
    """Return a sentence for each name server that did not answer; the others replace it."""
    silences = client.name_server_views.silences()
    return [f"{failure.what} reported nothing: {failure.error.sentence}" for failure in silences]
