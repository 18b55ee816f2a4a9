"""The group that is simulated, from a snapshot of a running group or from a description."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean

from msgspec import Struct

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import ClientSample
from rmqctl.protocol.versions import V5_0_0, version_ordinal
from rmqctl.rules.allocate import Allocate, sort_client_ids
from rmqctl.whatif.group_snapshot import GroupSnapshot, LiveGroup

from .timing import JAVA_4_9, JAVA_5_0, JAVA_5_2, RMQCTL, ClientTiming

TIMINGS: Mapping[str, ClientTiming] = {"4.9": JAVA_4_9, "5.0": JAVA_5_0, "5.2": JAVA_5_2, "rmqctl": RMQCTL}
CONSUME_MS, COMMIT_EVERY_MS = 10.0, 5000.0
_V5_2_0 = version_ordinal(5, 2, 0)


class ChurnGroup(Struct, frozen=True):
    """The group that is simulated.

    `rates` are the arriving messages per second by queue. `timings` are those of clients that differ from `timing`.
    `strangers` are, by topic, clients that its brokers do not list; `topics` are those that a client subscribes to,
    all if it is missing. With `is_orderly`, brokers lock each queue for its owner. With `refuses_older`, brokers refuse
    pulls of clients whose version is older than that of the last one that joined; clocks of clients differ by up to
    `skew_ms`.
    """

    queues: tuple[MessageQueue, ...]
    client_ids: tuple[str, ...]
    allocate: Allocate
    timing: ClientTiming
    timings: Mapping[str, ClientTiming] = {}
    rates: Mapping[MessageQueue, float] = {}
    consume_ms: float = 10.0
    commit_every_ms: float = 5000.0
    strangers: Mapping[str, frozenset[str]] = {}
    topics: Mapping[str, frozenset[str]] = {}
    is_orderly: bool = False
    refuses_older: bool = False
    skew_ms: float = 0.0


def churn_group(
    snapshot: GroupSnapshot,
    allocate: Allocate,
    *,
    rate: float | None = None,
    rates: Mapping[MessageQueue, float] | None = None,
    clients: Mapping[str, ClientSample] | None = None,
    consume_ms: float | None = None,
    commit_every_ms: float = COMMIT_EVERY_MS,
    timing: ClientTiming | None = None,
    is_orderly: bool | None = None,
    refuses_older: bool = False,
    skew_ms: float = 0.0,
) -> ChurnGroup:
    """Return the group to simulate; what is not given comes from the running group, else from RocketMQ's defaults.

    `rate` are the messages per second that arrive in all queues together, or `rates` by queue. `clients` are those of a
    recording. `consume_ms` is the listener's time per message, `timing` is that of all clients.
    """
    live = snapshot.live
    queues = [mq for mq in snapshot.queues if not mq.topic.startswith(RETRY_PREFIX)]
    if rate is not None:
        rates = {mq: rate / len(queues) for mq in queues}
    elif rates is None:
        rates = {} if live is None or live.put_rates is None else live.put_rates
    if clients is None:
        clients = {} if live is None else _live_clients(live)
    if consume_ms is None:
        consume_ms = _consume_ms(clients)
    return ChurnGroup(
        queues=snapshot.queues,
        client_ids=tuple(sort_client_ids(set(snapshot.client_ids))),
        allocate=allocate,
        timing=timing or _common_timing(clients),
        timings=_timings(clients) if timing is None else {},
        rates=rates,
        consume_ms=consume_ms,
        commit_every_ms=commit_every_ms,
        strangers=snapshot.strangers,
        topics=_topics(live),
        is_orderly=_is_orderly(clients) if is_orderly is None else is_orderly,
        refuses_older=refuses_older,
        skew_ms=skew_ms,
    )


def broker_names(group: ChurnGroup) -> tuple[str, ...]:
    """Return the brokers of a group's queues, sorted."""
    return tuple(sorted({mq.broker_name for mq in group.queues}))


def unprotected_ids(group: ChurnGroup) -> list[str]:
    """Return the clients that are known to have no protection mode: it is rmqctl's."""
    return sort_client_ids(name for name, timing in group.timings.items() if timing is not RMQCTL)


def client_timing(client: ClientSample) -> ClientTiming:
    """Return the timing of a client by its version; clients in other languages are treated like the newest Java."""
    if client.language == "PYTHON":
        return RMQCTL
    if client.language != "JAVA" or client.version >= _V5_2_0:
        return JAVA_5_2
    return JAVA_5_0 if client.version >= V5_0_0 else JAVA_4_9


def _live_clients(live: LiveGroup) -> dict[str, ClientSample]:
    """Return what is known of the clients of a running group, which all have a connection."""
    clients = {}
    for client_id, connection in live.connections.items():
        member = live.members.get(client_id)
        reported = (None, None) if member is None else (member.is_orderly, member.consume_rt_ms)
        clients[client_id] = ClientSample(connection.language, connection.version, *reported)
    return clients


def _common_timing(clients: Mapping[str, ClientSample]) -> ClientTiming:
    """Return the timing of most clients, for those whose version is unknown or that are new."""
    counts = Counter(map(client_timing, clients.values()))
    return counts.most_common(1)[0][0] if counts else JAVA_5_2


def _timings(clients: Mapping[str, ClientSample]) -> dict[str, ClientTiming]:
    return {client_id: client_timing(client) for client_id, client in clients.items()}


def _consume_ms(clients: Mapping[str, ClientSample]) -> float:
    """Return the average time of the listener that clients report."""
    reported = (client.consume_rt_ms for client in clients.values())
    times = [time_ms for time_ms in reported if time_ms is not None and time_ms >= 0]
    return fmean(times) if times else CONSUME_MS


def _is_orderly(clients: Mapping[str, ClientSample]) -> bool:
    """Return whether all clients that report it consume in order."""
    reported = [client.is_orderly for client in clients.values() if client.is_orderly is not None]
    return bool(reported) and all(reported)


def _topics(live: LiveGroup | None) -> dict[str, frozenset[str]]:
    """Return the topics of the members that report them."""
    if live is None:
        return {}
    return {client_id: member.topics for client_id, member in live.members.items() if member.topics is not None}
