"""rmqctl topic status: the queues of a topic, and the groups that consume it."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.totals import total_items, total_reasons, total_words
from rmqctl.errors import NotRegisteredError
from rmqctl.model.topic import READ, TOPIC_FINDINGS, WRITE
from rmqctl.rules.topics import permission_words
from rmqctl.rules.totals import total
from rmqctl.text.numbers import rate_words
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted, listed

if TYPE_CHECKING:
    from rmqctl.admin.topics.status import BrokerTopic, QueueStatus, TopicStatus

HELP = """\b
Examples:
  rmqctl topic status orders
  rmqctl topic status orders --sort -messageCount
  rmqctl topic status orders -o json | jq .summary
  rmqctl topic status '%DLQ%my-group'

\b
Columns:
  MIN, MAX     oldest available offset, next offset to be written
  MESSAGES     number of available messages
  OLDEST       store time of the oldest message
  LAST-WRITE   store time of the newest message
  USE          whether clients read and write it, by broker configuration

The note "Consumed by" lists groups with a member or a stored offset. If only some brokers report a group, they are
listed with it."""


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to show.", show_default=False)],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.topics.status import fetch_topic_status

    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    wanted = invocation.full_name(topic)
    status = invocation.ask(lambda client: fetch_topic_status(client, wanted))
    return render(to_listing(status), invocation.display)


def to_listing(status: "TopicStatus") -> Listing:
    """Return the listing of a topic's queues."""
    return Listing(
        kind="TopicStatus",
        columns=_COLUMNS,
        items=[_item(row) for row in status.queues],
        name=lambda item: f"{item['topic']}@{item['brokerName']}:{item['queueId']}",
        failures=status.failures,
        extra={
            "topic": status.topic,
            "summary": _summary(status),
            "brokers": [_broker(item) for item in status.brokers],
            "findings": list(status.findings),
            "isStatic": status.is_static,
        },
        notes=_notes(status),
        empty=f"Topic {status.topic} has no queues on any broker.",
    )


def _item(row: "QueueStatus") -> dict[str, Any]:
    offsets = row.offsets
    measured = {
        "minOffset": offsets.min_offset if offsets is not None else None,
        "maxOffset": offsets.max_offset if offsets is not None else None,
        "messageCount": row.message_count,
        "readable": row.is_read,
        "writable": row.is_written,
    }
    times = {
        "earliestTimestamp": row.earliest_at_ms,
        "lastUpdateTimestamp": offsets.last_update_at_ms if offsets is not None else None,
    }
    unknown = row.error.name if row.error is not None else "NOT_REPORTED"
    no_time = unknown if offsets is None or row.message_count else "NO_MESSAGES"
    reasons = {name: unknown for name, value in measured.items() if value is None}
    reasons |= {name: no_time for name, value in times.items() if value is None}
    return {
        "topic": row.mq.topic,
        "brokerName": row.mq.broker_name,
        "queueId": row.mq.queue_id,
        **measured,
        **time_fields("earliestTimestamp", times["earliestTimestamp"]),
        **time_fields("lastUpdateTimestamp", times["lastUpdateTimestamp"]),
        "reasons": reasons,
    }


def _broker(item: "BrokerTopic") -> dict[str, Any]:
    config, route = item.config, item.in_route
    return {
        "brokerName": item.broker_name,
        "config": None
        if config is None
        else {
            "readQueueNums": config.read_queue_count,
            "writeQueueNums": config.write_queue_count,
            "perm": config.perm,
            "order": config.is_ordered,
            "attributes": dict(config.attributes),
        },
        "route": None
        if route is None
        else {
            "readQueueNums": route.read_queue_count,
            "writeQueueNums": route.write_queue_count,
            "perm": route.perm,
        },
        "topicPutTps": item.put_tps,
        "groups": None if item.groups is None else list(item.groups),
        "reasons": _broker_reasons(item),
    }


def _broker_reasons(item: "BrokerTopic") -> dict[str, str]:
    missing = item.error.name if item.error is not None else "NOT_ON_BROKER"
    too_old = missing if item.config is None else "BROKER_TOO_OLD"
    reasons = {"config": missing} if item.config is None else {}
    reasons |= {"route": "NOT_IN_ROUTE"} if item.in_route is None else {}
    reasons |= {"topicPutTps": too_old} if item.put_tps is None else {}
    return reasons | ({"groups": missing} if item.groups is None else {})


def _groups(status: "TopicStatus") -> dict[str, list[str]]:
    """Return the brokers that name each group."""
    names = sorted({group for item in status.brokers for group in item.groups or ()})
    return {name: [item.broker_name for item in status.brokers if name in (item.groups or ())] for name in names}


def _summary(status: "TopicStatus") -> dict[str, Any]:
    """Sum up the queues."""
    rates = [item.put_tps for item in status.brokers if item.config is not None or item.error is not None]
    written = [row.offsets.last_update_at_ms or 0 for row in status.queues if row.offsets is not None]
    last_at_ms = max(written, default=0) or None
    errors = [row.error.name for row in status.queues if row.error is not None]
    errors += [item.error.name for item in status.brokers if item.error is not None]
    if errors:
        last_at_ms = None  # a broker that is silent may have a newer one
    # A silent broker without a row may have queues too.
    rows = {row.mq.broker_name for row in status.queues}
    silent = [item.error.name for item in status.brokers if item.error is not None and item.broker_name not in rows]
    hidden = silent[0] if silent else None
    totals = {
        "queueCount": total([(len(status.queues), "")], hidden=hidden),
        "brokerCount": total([(len(rows), "")], hidden=hidden),
        "messageCount": total(
            ((row.message_count, row.error.name if row.error is not None else "NOT_REPORTED") for row in status.queues),
            hidden=hidden,
        ),
    }
    reasons = total_reasons(totals)
    if None in rates:
        reasons["topicPutTps"] = errors[0] if errors else "BROKER_TOO_OLD"
    if last_at_ms is None:
        reasons["lastUpdateTimestamp"] = errors[0] if errors else "NO_MESSAGES"
    return {
        **total_items(totals),
        "topicPutTps": None if None in rates else sum(rate or 0 for rate in rates),
        **time_fields("lastUpdateTimestamp", last_at_ms),
        "groups": [{"group": name, "brokerNames": brokers} for name, brokers in _groups(status).items()],
        "liteGroups": list(status.lite_groups),
        "reasons": reasons,
    }


def _notes(status: "TopicStatus") -> list[str]:
    summary = _summary(status)
    messages = total_words(summary, "messageCount", "message")
    rate = "" if summary["topicPutTps"] is None else f", {rate_words(summary['topicPutTps'])} msg/s in"
    where = f"{total_words(summary, 'queueCount', 'queue')} on {counted(summary['brokerCountAtLeast'], 'broker')}"
    notes = [f"Topic {status.topic}: {where}, {messages}{rate}."]
    having = [item.broker_name for item in status.brokers if item.config is not None]
    groups = _groups(status)
    names = [name if brokers == having else f"{name} (on {', '.join(brokers)})" for name, brokers in groups.items()]
    silent = [item.broker_name for item in status.brokers if item.groups is None]
    if status.lite_groups:
        notes.append(f"Its lite topics are consumed by {listed(status.lite_groups, _SHOWN_GROUPS)} (RIP-83).")
    if names or not status.lite_groups:
        notes.append(_consumers(names, silent) if status.retry_group is None else _unread(status.retry_group, silent))
    if status.is_static:
        notes.append("It is a static topic: the queues are the physical ones behind its logical queues.")
    notes += [f"{finding}: {TOPIC_FINDINGS[finding]}." for finding in status.findings]
    if status.findings:
        notes += [_words(item) for item in status.brokers]
    return notes


# All of them are in JSON.
_SHOWN_GROUPS = 10


def _consumers(names: list[str], silent: list[str]) -> str:
    """Return a sentence on who consumes a topic, as far as brokers reported it."""
    if not silent:
        return f"Consumed by {listed(names, _SHOWN_GROUPS)}." if names else "No group consumes it."
    unreported = f"{', '.join(silent)} did not report."
    if not names:
        return f"No group is known to consume it: {unreported}"
    return f"Consumed by {listed(names, _SHOWN_GROUPS)}, and perhaps others: {unreported}"


def _unread(group: str, silent: list[str]) -> str:
    """Return a sentence on whose messages are in a retry topic without known members."""
    start = f"It contains failed messages of group {group}; "
    if silent:
        return f"{start}whether a member reads it is unknown: {', '.join(silent)} did not report."
    return f"{start}no member subscribes to it, and no offset is stored for it."


def _words(item: "BrokerTopic") -> str:
    """Return a broker's configuration and its route, side by side."""
    config, route = item.config, item.in_route
    has = "unknown" if item.error is not None else "does not have it"
    if config is not None:
        has = f"{config.read_queue_count}r/{config.write_queue_count}w {permission_words(config.perm)}"
    in_route = "not listed"
    if route is not None:
        in_route = f"{route.read_queue_count}r/{route.write_queue_count}w {permission_words(route.perm)}"
    if isinstance(item.error, NotRegisteredError):
        return f"  {item.broker_name}: {item.error.reason}; it had {in_route}."
    return f"  {item.broker_name}: {has}; in the route: {in_route}{_limit(item)}."


def _limit(item: "BrokerTopic") -> str:
    """Return what to add where a broker registers a topic with less permission than the topic has."""
    config, route = item.config, item.in_route
    if config is None or route is None or not config.perm & ~route.perm & (READ | WRITE):
        return ""
    show = shlex.join(("rmqctl", "broker", "show", item.broker_name, "--key", "brokerPermission"))
    return f", as far as the broker's own permission allows (brokerPermission: {show})"


def _show_use(item: Item) -> str:
    if item["readable"] is None:
        return "-"
    return permission_words(4 * item["readable"] + 2 * item["writable"])


def _is_unread(item: Item) -> bool:
    return item["readable"] is False and bool(item["messageCount"])


_COLUMNS = (
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    Column("MIN", "minOffset", is_number=True),
    Column("MAX", "maxOffset", is_number=True),
    Column("MESSAGES", "messageCount", is_number=True),
    Column("OLDEST", "earliestTimestamp", is_time=True, gives_way=True),
    Column("LAST-WRITE", "lastUpdateTimestamp", is_time=True),
    Column("USE", "readable", show=_show_use, is_alarm=_is_unread),
    Column("WRITABLE", "writable", is_wide=True),
    Column("TOPIC", "topic", is_wide=True),
)
