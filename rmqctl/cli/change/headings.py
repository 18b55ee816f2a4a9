"""The lines above a plan's table: the operation, the group, the cluster, and who made the plan when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rmqctl.changes.groups.rules.changes import operation_name
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.words import listed

if TYPE_CHECKING:
    from rmqctl.model.plan import Plan


def headings(plan: Plan, now_ms: int, *, is_saved: bool = False) -> Iterator[str]:
    """Return the lines. A plan of an older release has no author and no target time."""
    cluster, _, servers = plan.cluster.partition("@")
    context = "" if plan.author is None or plan.author.context is None else f" (context {plan.author.context})"
    topics = sorted({item.mq.topic for item in plan.items})
    topic = f", topic{'s' if len(topics) > 1 else ''} {listed(topics)}" if topics else ""
    asked = f": {plan.asked}" if plan.asked else ""
    name = operation_name(plan.operation, plan.asked)
    yield f"{name} of group {plan.group} in {cluster} at {servers}{context}{topic}{asked}"
    if plan.time_ms is not None and (at := iso_time(plan.time_ms)) is not None:
        yield f"Target time: {at}{_local(plan.time_ms)}, {_distance(plan.time_ms, now_ms)}."
    if is_saved:
        who = "" if plan.author is None else f" by {plan.author.user} on {plan.author.host}"
        yield f"Plan {plan.id} was made {_distance(plan.created_at_ms, now_ms)}{who}, {iso_time(plan.created_at_ms)}."
        if plan.reason is not None:
            yield f"Reason: {plan.reason}"


def _local(at_ms: int) -> str:
    """Return a time in this machine's zone, an empty string if that is UTC."""
    local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return f" ({local:%Y-%m-%d %H:%M:%S} local)" if local.utcoffset() else ""


def _distance(at_ms: int, now_ms: int) -> str:
    away_ms = now_ms - at_ms
    return f"{short_duration(away_ms)} ago" if away_ms >= 0 else f"in {short_duration(-away_ms)}"
