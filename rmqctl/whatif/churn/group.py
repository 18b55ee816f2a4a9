"""The group that is simulated, from a snapshot of a running group or from a description."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from msgspec import Struct

from rmqctl.model.group import Member
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
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
    consume_ms: float | None = None,
    commit_every_ms: float = COMMIT_EVERY_MS,
    timing: ClientTiming | None = None,
    is_orderly: bool | None = None,
    refuses_older: bool = False,
    skew_ms: float = 0.0,
) -> ChurnGroup:
    """Return the group to simulate; what is not given comes from the running group, else from RocketMQ's defaults.

    `rate` are the messages per second that arrive in all queues together, or `rates` by queue, `consume_ms` is the
    listener's time per message, `timing` is that of all clients.
    """
    live = snapshot.live
    queues = [mq for mq in snapshot.queues if not mq.topic.startswith(RETRY_PREFIX)]
    if rate is not None:
        rates = {mq: rate / len(queues) for mq in queues}
    elif rates is None:
        rates = {} if live is None or live.put_rates is None else live.put_rates
    if consume_ms is None:
        consume_ms = _consume_ms(live)
    return ChurnGroup(
        queues=snapshot.queues,
        client_ids=tuple(sort_client_ids(set(snapshot.client_ids))),
        allocate=allocate,
        timing=timing or JAVA_5_2,
        timings=_timings(live) if timing is None and live is not None else {},
        rates=rates,
        consume_ms=consume_ms,
        commit_every_ms=commit_every_ms,
        strangers=snapshot.strangers,
        topics=_topics(live),
        is_orderly=_is_orderly(live) if is_orderly is None else is_orderly,
        refuses_older=refuses_older,
        skew_ms=skew_ms,
    )


def broker_names(group: ChurnGroup) -> tuple[str, ...]:
    """Return the brokers of a group's queues, sorted."""
    return tuple(sorted({mq.broker_name for mq in group.queues}))


def member_timing(member: Member) -> ClientTiming:
    """Return the timing of a client by its version; clients in other languages are treated like the newest Java."""
    if member.language == "PYTHON":
        return RMQCTL
    if member.language != "JAVA" or member.version >= _V5_2_0:
        return JAVA_5_2
    return JAVA_5_0 if member.version >= V5_0_0 else JAVA_4_9


def _timings(live: LiveGroup) -> dict[str, ClientTiming]:
    return {client_id: member_timing(member) for client_id, member in live.connections.items()}


def _consume_ms(live: LiveGroup | None) -> float:
    """Return the average time of the listener that members report."""
    members = [] if live is None else live.members.values()
    times = [member.consume_rt_ms for member in members if member.consume_rt_ms is not None]
    return fmean(times) if times else CONSUME_MS


def _is_orderly(live: LiveGroup | None) -> bool:
    """Return whether all members that report it consume in order."""
    members = [] if live is None else live.members.values()
    reported = [member.is_orderly for member in members if member.is_orderly is not None]
    return bool(reported) and all(reported)


def _topics(live: LiveGroup | None) -> dict[str, frozenset[str]]:
    """Return the topics of the members that report them."""
    if live is None:
        return {}
    return {client_id: member.topics for client_id, member in live.members.items() if member.topics is not None}
