"""Single servers, one after the other: what they are, how fast they answer, what they refuse."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from rmqctl.client.broker_clock import sample_clock
from rmqctl.client.core import Client
from rmqctl.client.identity import ServerKind, identify
from rmqctl.errors import BrokerError, NotAuthorisedError, RmqctlError
from rmqctl.model.route import ClusterInfo
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.command import Command
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.rules.clock_skew import SkewBounds, compute_skew

_SAMPLES = 5
# A topic that every broker makes for itself.
_SELF_TEST_TOPIC = "SELF_TEST_TOPIC"


class ServerProbe(Struct, frozen=True):
    """One server. `rtt_ms` is the shortest round trip; with `error` it did not answer, or did not let us in.

    `cluster` is what a name server lists; `version` is None for a server that does not tell.
    """

    address: str
    kind: ServerKind | None = None
    rtt_ms: float | None = None
    version: str | None = None
    cluster: ClusterInfo | None = None
    error: RmqctlError | None = None


async def probe_server(client: Client, address: str) -> ServerProbe:
    """Find out what a server is, and measure its round trip. Never raises an error of the cluster."""
    try:
        kind = await identify(client.ask, address)
        command = headers.get_cluster_info() if kind is ServerKind.NAME_SERVER else headers.get_broker_config()
        if kind in (ServerKind.PROXY, ServerKind.UNKNOWN):
            command = headers.get_route(_SELF_TEST_TOPIC)
        answer, rtt_ms = await _timed(client, address, command)
    except RmqctlError as error:
        return ServerProbe(address, error=error)
    version = plain_version(version_name(answer.version)) if answer is not None else None
    cluster = None
    try:
        if kind is ServerKind.NAME_SERVER and answer is not None:
            cluster = bodies.decode_cluster_info(answer.body)
        elif kind is ServerKind.BROKER:
            await client.ask(address, command)
    except RmqctlError as error:
        return ServerProbe(address, kind, rtt_ms, version, error=error)
    return ServerProbe(address, kind, rtt_ms, version, cluster)


async def _timed(client: Client, address: str, command: Command) -> tuple[Command | None, float]:
    """Return an answer, None for a refusal, and the shortest of a few round trips in ms."""
    answer, shortest_s = None, float("inf")
    for _ in range(3):
        started_s = client.clock.monotonic_s()
        try:
            answer = await client.ask(address, command)
        except (BrokerError, NotAuthorisedError):
            pass  # an answer as well, as far as time goes
        shortest_s = min(shortest_s, client.clock.monotonic_s() - started_s)
    return answer, round(shortest_s * 1000, 3)


class Read(Struct, frozen=True):
    """A read that rmqctl needs: what a 5.x broker wants for it, and which commands do.

    `decode` reads the answer, for tables that every broker has: without one, a list of the cluster is partial.
    """

    command: Command
    right: str
    commands: str
    decode: Callable[[bytes], object] | None = None


class BadReads(Struct, frozen=True):
    """The reads of a broker that it refuses us, the tables that it did not tell, and how many reads were tried."""

    refused: list[Read]
    failed: list[tuple[Read, RmqctlError]]
    read_count: int

    @property
    def lists_error(self) -> RmqctlError | None:
        """Why lists of the cluster are partial, None when they are whole."""
        return next((error for read, error in self.failed if read.decode is not None), None)


def _reads() -> tuple[Read, ...]:
    """Return the reads, about a topic and a group that every broker has; none leaves a trace."""
    group, topic = headers.TOOLS_CONSUMER_GROUP, _SELF_TEST_TOPIC
    group_get, topic_get, signature = f"Get on Group:{group}", f"Get on Topic:{topic}", "a valid signature"
    return (
        Read(headers.get_broker_config(), signature, "broker show"),
        Read(headers.get_broker_runtime(), signature, "cluster list, broker show", bodies.decode_key_values),
        Read(headers.get_all_groups(), signature, "group list", bodies.decode_groups),
        Read(headers.get_all_topic_configs(), signature, "topic list, group list", bodies.decode_topic_configs),
        Read(headers.get_all_consumer_offsets(), signature, "group list", bodies.decode_consumer_offsets),
        Read(headers.get_topic_stats(topic), topic_get, "topic status, offset show"),
        Read(headers.get_connections(group), group_get, "group members, offset show"),
        Read(headers.get_consume_stats(group), group_get, "offset show, group list"),
        Read(headers.get_consume_time_span(topic, group), f"{topic_get}, {group_get}", "offset show"),
        Read(
            headers.pull_without_trace(topic, 0, 0, max_count=1),
            f"Sub on Topic:{topic}, Sub on Group:{group}",
            "message tail, message find, offset peek",
        ),
    )


async def fetch_bad_reads(client: Client, address: str) -> BadReads:
    """Return the reads that a broker refuses us or does not answer. Raises what goes wrong with any but a table."""
    refused: list[Read] = []
    failed: list[tuple[Read, RmqctlError]] = []
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
            # else it let us in, and had nothing to tell
    return BadReads(refused, failed, len(reads))


async def measure_clock(client: Client, address: str) -> SkewBounds | None:
    """Return how far a broker's clock is from ours, None when it does not tell. Raises the request's errors.

    It leaves no trace.
    """
    looks = [await sample_clock(client, address, client.clock.now_ms) for _ in range(_SAMPLES)]
    samples = [look for look in looks if look is not None]
    return compute_skew(samples) if samples else None
