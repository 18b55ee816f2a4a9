"""Probe single servers: their kind, their response time, and the requests that they refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from rmqctl.client.broker_clock import sample_clock
from rmqctl.client.core import Client
from rmqctl.client.identity import ServerKind, identify
from rmqctl.errors import BrokerError, NotAuthorisedError, RmqctlError
from rmqctl.model.route import ClusterInfo
from rmqctl.protocol import bodies, group_bodies, headers
from rmqctl.protocol.command import Command
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.rules.clock_skew import SkewBounds, compute_skew

_SAMPLES = 5
# A topic that every broker creates for itself.
_SELF_TEST_TOPIC = "SELF_TEST_TOPIC"


class ServerProbe(Struct, frozen=True):
    """One server. `rtt_ms` is the shortest round trip; with `error`, it did not answer or denied access.

    `cluster` is a name server's list, `settings` are a broker's; `version`: None when the server does not report it.
    """

    address: str
    kind: ServerKind | None = None
    rtt_ms: float | None = None
    version: str | None = None
    cluster: ClusterInfo | None = None
    settings: Mapping[str, str] = {}
    error: RmqctlError | None = None


async def probe_server(client: Client, address: str) -> ServerProbe:
    """Return a server's kind and round-trip time. Errors of the cluster are in the result, not raised."""
    try:
        kind = await identify(client.ask, address)
        command = headers.get_cluster_info() if kind is ServerKind.NAME_SERVER else headers.get_broker_config()
        if kind in (ServerKind.PROXY, ServerKind.UNKNOWN):
            command = headers.get_route(_SELF_TEST_TOPIC)
        answer, rtt_ms = await _timed(client, address, command)
    except RmqctlError as error:
        return ServerProbe(address, error=error)
    version = plain_version(version_name(answer.version)) if answer is not None else None
    cluster, settings = None, {}
    try:
        if kind is ServerKind.NAME_SERVER and answer is not None:
            cluster = bodies.decode_cluster_info(answer.body)
        elif kind is ServerKind.BROKER:
            settings = bodies.decode_properties_text((await client.ask(address, command)).body)
    except RmqctlError as error:
        return ServerProbe(address, kind, rtt_ms, version, error=error)
    return ServerProbe(address, kind, rtt_ms, version, cluster, settings)


async def _timed(client: Client, address: str, command: Command) -> tuple[Command | None, float]:
    """Return an answer, None for a refusal, and the shortest of a few round trips in ms."""
    answer, shortest_s = None, float("inf")
    for _ in range(3):
        started_s = client.clock.monotonic_s()
        try:
            answer = await client.ask(address, command)
        except (BrokerError, NotAuthorisedError):
            pass  # also an answer, for measuring time
        shortest_s = min(shortest_s, client.clock.monotonic_s() - started_s)
    return answer, round(shortest_s * 1000, 3)


class ReadProbe(Struct, frozen=True):
    """A read request that rmqctl needs: the permission that a 5.x broker requires, and the commands that send it.

    `decode` reads the answer of tables that every broker has; without them, lists of the cluster are partial.
    """

    command: Command
    right: str
    commands: str
    decode: Callable[[bytes], object] | None = None


class FailedReads(Struct, frozen=True):
    """The reads that a broker refused, those that failed, and the number of reads that were tried."""

    refused: list[ReadProbe]
    failed: list[tuple[ReadProbe, RmqctlError]]
    read_count: int

    @property
    def lists_error(self) -> RmqctlError | None:
        """Why lists of the cluster are partial, None when they are complete."""
        return next((error for read, error in self.failed if read.decode is not None), None)


def _reads() -> tuple[ReadProbe, ...]:
    """Return the read-only requests, for a topic and a group that every broker has."""
    group, topic = headers.TOOLS_CONSUMER_GROUP, _SELF_TEST_TOPIC
    group_get, topic_get, signature = f"Get on Group:{group}", f"Get on Topic:{topic}", "a valid signature"
    return (
        ReadProbe(headers.get_broker_config(), signature, "broker show"),
        ReadProbe(headers.get_broker_runtime(), signature, "cluster list, broker show", bodies.decode_key_values),
        ReadProbe(headers.get_all_groups(), signature, "group list", group_bodies.decode_groups),
        ReadProbe(headers.get_all_topic_configs(), signature, "topic list, group list", bodies.decode_topic_configs),
        ReadProbe(headers.get_all_consumer_offsets(), signature, "group list", bodies.decode_consumer_offsets),
        ReadProbe(headers.get_topic_stats(topic), topic_get, "topic status, offset show"),
        ReadProbe(headers.get_connections(group), group_get, "group members, offset show"),
        ReadProbe(headers.get_consume_stats(group), group_get, "offset show, group list"),
        ReadProbe(headers.get_consume_time_span(topic, group), f"{topic_get}, {group_get}", "offset show"),
        ReadProbe(
            headers.pull_without_trace(topic, 0, 0, max_count=1),
            f"Sub on Topic:{topic}, Sub on Group:{group}",
            "message tail, message find, offset peek",
        ),
    )


async def fetch_bad_reads(client: Client, address: str) -> FailedReads:
    """Return the reads that a broker refuses or does not answer. Raises other errors of reads that are not tables."""
    refused: list[ReadProbe] = []
    failed: list[tuple[ReadProbe, RmqctlError]] = []
    reads = _reads()
    for read in reads:
        try:
            answer = await client.ask(address, read.command)
            if read.decode is not None:
                read.decode(answer.body)
        except NotAuthorisedError as error:
            refused.append(read)
            failed.append((read, error))
        except RmqctlError as error:
            if read.decode is not None:
                failed.append((read, error))
            elif not isinstance(error, BrokerError):
                raise
            # else access was granted, and there was nothing to report
    return FailedReads(refused, failed, len(reads))


async def fetch_earliest_now_ms(client: Client, address: str) -> int | None:
    """Return a lower bound of a broker's time, epoch ms, None when it does not report it. Raises as measure_clock()."""
    skew = await measure_clock(client, address)
    return None if skew is None else client.clock.now_ms() + skew.low_ms


async def measure_clock(client: Client, address: str) -> SkewBounds | None:
    """Return how far a broker's clock is from ours, None when the broker does not report it.

    Changes nothing on the broker. Raises the request's errors.
    """
    looks = [await sample_clock(client, address, client.clock.now_ms) for _ in range(_SAMPLES)]
    samples = [look for look in looks if look is not None]
    return compute_skew(samples) if samples else None
