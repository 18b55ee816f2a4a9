"""rmqctl group members: show the members of a group, as reported by each broker and each client."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from rmqctl.cli.arguments import Group
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.connections import show_hosts, show_reported_by
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.model.group import MemberView, RunningInfo
from rmqctl.model.progress import Unknown
from rmqctl.rules.group_state import why_unseen
from rmqctl.text.durations import short_duration
from rmqctl.text.numbers import rounded_rate
from rmqctl.text.times import time_fields

if TYPE_CHECKING:
    from rmqctl.admin.groups.members import GroupMembers
    from rmqctl.admin.results import Answers

HELP = """\b
Examples:
  rmqctl group members my-group
  rmqctl group members my-group -o wide             # also brokers, addresses, rates, settings
  rmqctl group members my-group --where 'queueCount=0'      # members without a queue
  rmqctl group members my-group -o json | jq '.items[] | {clientId, unseenAt}'

\b
Columns:
  HOST         address of the client; it has one connection per broker
  REPORTED-BY  brokers that see the client, of the brokers of its topics: all
               must, because clients ask any of them for the members of the
               group; ? if a broker did not answer
  QUEUES       queues that the client reports holding
  CACHED       messages pulled and not yet finished
  OK/S         messages consumed per second in the last minute, as counted by
               the client
  FAILED/S     failed messages per second in the last minute
  RT-MS        mean time to consume a message in the last minute
  STRATEGY     how the client allocates queues; must be the same for all
               members

A member that does not answer its broker (or is written in another language) has dashes; -o json shows the reason."""


def command(
    ctx: typer.Context,
    group: Group,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.groups.members import fetch_group_members

    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    members = invocation.ask(lambda client: fetch_group_members(client, invocation.full_name(group)))
    return render(to_listing(members), invocation.display)


def to_listing(members: "GroupMembers") -> Listing:
    """Make the listing of a group's members."""
    from rmqctl.diagnose.diagnosis import sentences
    from rmqctl.diagnose.group_facts import facts_of_members
    from rmqctl.diagnose.table import CHECKS

    facts = facts_of_members(members)
    items = [member_item(view, members.running) for view in facts.members]
    return Listing(
        kind="MemberList",
        columns=COLUMNS,
        items=items,
        name=lambda item: str(item["clientId"]),
        failures=members.failures,
        extra={
            "group": members.group,
            "state": members.state,
            "stateReason": None if members.unseen_reason is None else str(members.unseen_reason),
            "brokerNames": sorted(members.connections),
        },
        notes=sentences(facts, CHECKS, "MEM", "ALO001", "ORD"),
        empty=no_members(members.group, members.unseen_reason),
    )


def no_members(group: str, unseen_reason: Unknown | None) -> str:
    """Return the sentence for a group without a member that was seen."""
    if unseen_reason in (Unknown.BROKER_UNREACHABLE, Unknown.BROKER_NOT_REGISTERED):
        return f"No member of {group} was seen, but not every broker answered."
    if unseen_reason is Unknown.NOT_AUTHORISED:
        return f"No broker shows a member of {group}, but there may be some ({why_unseen(unseen_reason)})."
    if unseen_reason is Unknown.BEHIND_PROXY:
        return f"No broker sees a member of {group}; there may be some behind a proxy, which brokers do not see."
    return f"No broker sees a member of {group}."


def member_item(view: MemberView, running: "Answers[str, RunningInfo]") -> dict[str, Any]:
    """Make one member's item: what brokers report about it, then what it reports itself."""
    from rmqctl.protocol.versions import plain_version, version_name

    info = running.ok.get(view.client_id)
    return {
        "clientId": view.client_id,
        "language": ",".join(view.languages),
        "clientVersion": ",".join(plain_version(version_name(version)) for version in view.versions),
        "clientAddrs": {name: list(addresses) for name, addresses in view.addresses.items()},
        "brokerNames": sorted(view.addresses),
        "unseenAt": list(view.unseen_at),
        "untoldAt": list(view.untold_at),
        "isIdShared": any(len(addresses) > 1 for addresses in view.addresses.values()),
        **reported_by(info),
        "reasons": dict.fromkeys(_UNANSWERED, "CLIENT_SILENT") if info is None else _reasons(info),
    }


_UNANSWERED: Mapping[str, None] = dict.fromkeys((
    "consumeType", "messageModel", "isOrderly", "startTimestamp", "startTimestampIso", "queueCount", "queues",
    "cachedMsgCount", "cachedMsgSizeInMiB", "popUnackedCount", "pullTps", "consumeOkTps", "consumeFailedTps",
    "consumeFailedMsgs", "consumeRtMs", "strategy", "consumeThreadMax", "consumeFromWhere", "maxReconsumeTimes",
    "consumeTimeoutMs", "nameServers",
))  # fmt: skip


def reported_by(info: RunningInfo | None) -> Mapping[str, Any]:
    """Return what a member reports about itself, as keys of its item; all of them None when it did not answer."""
    return _UNANSWERED if info is None else _own_words(info)


def _own_words(info: RunningInfo) -> dict[str, Any]:
    from rmqctl.rules.group_views import strategy_name, total_status
    from rmqctl.rules.member_settings import member_settings

    properties, settings = info.properties, member_settings(info)
    started_at_ms = _number(properties.get("PROP_CONSUMER_START_TIMESTAMP"))
    held = {mq: queue for mq, queue in info.process_queues.items() if not queue.dropped}
    queues = sorted({*held, *info.pop_unacked})
    total = total_status(info.statuses.values())
    return {
        "consumeType": properties.get("PROP_CONSUME_TYPE"),
        "messageModel": properties.get("messageModel"),
        "isOrderly": settings.is_orderly,
        **time_fields("startTimestamp", started_at_ms),
        "queueCount": len(queues),
        "queues": [str(mq) for mq in queues],
        "cachedMsgCount": sum(queue.cached_count for queue in held.values()),
        "cachedMsgSizeInMiB": sum(queue.cached_size_mib for queue in held.values()),
        "popUnackedCount": sum(info.pop_unacked.values()),
        "pullTps": None if total is None else rounded_rate(total.pull_tps),
        "consumeOkTps": None if total is None else rounded_rate(total.consume_ok_tps),
        "consumeFailedTps": None if total is None else rounded_rate(total.consume_failed_tps),
        "consumeFailedMsgs": None if total is None else total.consume_failed_count,
        "consumeRtMs": None if total is None else round(total.consume_rt_ms, 2),
        "strategy": strategy_name(info),
        "consumeThreadMax": _number(properties.get("consumeThreadMax")),
        "consumeFromWhere": settings.consume_from_where,
        "maxReconsumeTimes": settings.max_reconsume_times,
        "consumeTimeoutMs": settings.consume_timeout_ms,
        "nameServers": [part for part in properties.get("PROP_NAMESERVER_ADDR", "").split(";") if part] or None,
    }


def _reasons(info: RunningInfo) -> dict[str, str]:
    return {name: "NOT_REPORTED" for name, value in _own_words(info).items() if value is None}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _rate(key: str) -> Any:
    return lambda item: "-" if item[key] is None else f"{item[key]:g}"


def _show_timeout(item: Item) -> str:
    return "-" if item["consumeTimeoutMs"] is None else short_duration(item["consumeTimeoutMs"])


def _show_orderly(item: Item) -> str:
    return {True: "yes", False: "no", None: "-"}[item["isOrderly"]]


COLUMNS = (
    Column("CLIENT", "clientId", is_kept=True),
    Column("HOST", "clientAddrs", show=show_hosts, gives_way=True),
    Column("LANGUAGE", "language", is_wide=True),
    Column("VERSION", "clientVersion", gives_way=True),
    Column("REPORTED-BY", "brokerNames", show=show_reported_by, is_alarm=lambda item: bool(item["unseenAt"])),
    Column("UNSEEN-AT", "unseenAt", show=lambda item: ",".join(item["unseenAt"]) or "-", is_wide=True),
    Column("QUEUES", "queueCount", is_number=True, is_alarm=lambda item: item["queueCount"] == 0),
    Column("CACHED", "cachedMsgCount", is_number=True),
    Column("CACHED-MIB", "cachedMsgSizeInMiB", is_number=True, is_wide=True),
    Column("UNACKED", "popUnackedCount", is_number=True, is_wide=True),
    Column("OK/S", "consumeOkTps", show=_rate("consumeOkTps"), is_number=True),
    Column(
        "FAILED/S",
        "consumeFailedTps",
        show=_rate("consumeFailedTps"),
        is_number=True,
        is_alarm=lambda item: bool(item["consumeFailedTps"]),
    ),
    Column("FAILED-1H", "consumeFailedMsgs", is_number=True, is_wide=True),
    Column("RT-MS", "consumeRtMs", show=_rate("consumeRtMs"), is_number=True, gives_way=True),
    Column("THREADS", "consumeThreadMax", is_number=True, is_wide=True),
    Column("TYPE", "consumeType", is_wide=True),
    Column("MODEL", "messageModel", is_wide=True),
    Column("ORDERLY", "isOrderly", show=_show_orderly, is_wide=True),
    Column("FROM", "consumeFromWhere", is_wide=True),
    Column("RETRIES", "maxReconsumeTimes", is_number=True, is_wide=True),
    Column("TIMEOUT", "consumeTimeoutMs", show=_show_timeout, is_number=True, is_wide=True),
    Column("STRATEGY", "strategy", gives_way=True),
    Column("STARTED", "startTimestamp", is_time=True, is_wide=True),
)
