"""rmqctl group describe: show everything about a group on one page."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from rmqctl.cli.arguments import Groups
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.offset.show import show_tps, sum_rows, summarise
from rmqctl.cli.output.listing import Column, Item, Listing, Section
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.totals import show_total, total_items, total_reasons, total_words
from rmqctl.cli.output.unreadable import unreadable_items
from rmqctl.model.failure import Failure
from rmqctl.model.group import CONSUME_PASSIVELY, GroupState
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.rules.lite_topics import NOT_LITE, bound_topic
from rmqctl.rules.member_settings import limit_words, retry_limit
from rmqctl.rules.totals import total
from rmqctl.text.durations import short_duration
from rmqctl.text.words import by_value, counted, listed

from .config import COLUMNS as CONFIG_COLUMNS
from .config import config_items
from .members import COLUMNS as MEMBER_COLUMNS
from .members import member_item, no_members
from .subscriptions import COLUMNS as SUBSCRIPTION_COLUMNS
from .subscriptions import subscription_item

if TYPE_CHECKING:
    from rmqctl.admin.group_details import GroupDetails

HELP = """\b
Examples:
  rmqctl group describe my-group
  rmqctl group describe 'payments-*'
  rmqctl group describe my-group -o wide
  rmqctl group describe my-group -o json | jq '.items[0].findings[] | {code, sentence}'

Shows progress per topic, members, subscriptions, configuration and dead letters. "Attention" lists what the checks of
`rmqctl diagnose` find in a single reading, without known defects of versions: for example a message that has been stuck
for a minute, but not growing lag. `rmqctl offset show` lists each queue."""

_GROUPS_AT_ONCE = 4


def command(
    ctx: typer.Context,
    groups: Groups,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.group_details import fetch_group_details
    from rmqctl.admin.groups.names import fetch_matching_groups
    from rmqctl.admin.results import ask_all, only_or_failed
    from rmqctl.client.core import Client

    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)

    async def fetch(client: Client) -> "tuple[list[GroupDetails], list[Failure]]":
        names, failures = await fetch_matching_groups(client, [invocation.full_name(group) for group in groups])
        answers = await ask_all(names, lambda name: fetch_group_details(client, name), at_once=_GROUPS_AT_ONCE)
        failures += [Failure.of_group(name, error) for name, error in answers.failed.items()]
        return only_or_failed(answers), failures

    return render(to_listing(*invocation.ask(fetch)), invocation.display)


def to_listing(found: list["GroupDetails"], failed: Sequence[Failure] = ()) -> Listing:
    """Make the listing of groups, each shown in full."""
    from rmqctl.admin.results import merge_failures

    failures = merge_failures({details.progress.group: details.failures for details in found})
    return Listing(
        kind="GroupDetails",
        columns=_COLUMNS,
        items=[_item(details) for details in found],
        name=lambda item: str(item["group"]),
        failures=[*failed, *failures],
        sections=_sections,
    )


def _item(details: "GroupDetails") -> dict[str, Any]:
    from rmqctl.cli.diagnose.finding_items import finding_item
    from rmqctl.diagnose.diagnosis import diagnose
    from rmqctl.diagnose.group_facts import facts_of
    from rmqctl.diagnose.table import CHECKS
    from rmqctl.rules.group_views import subscription_views

    progress, facts = details.progress, facts_of(details)
    unreadable = {**progress.unreadable, **details.cut_queues}
    members = [member_item(view, details.running) for view in facts.members]
    views = subscription_views(progress.group, details.connections, details.running.ok)
    subscriptions = [subscription_item(view) for view in views]
    configs = config_items(details.configs)
    starts = _starts(details, members)
    item: dict[str, Any] = {
        "group": progress.group,
        **summarise(progress),
        "unreadableMessageCount": sum(unreadable.values()),
        "liteBindTopic": bound_topic(details.configs.values()),
        "consumeFromWhere": next(iter(starts)) if len(starts) == 1 else None,
        "strategies": sorted({member["strategy"] for member in members if member["strategy"]}),
        "clientVersions": sorted({member["clientVersion"] for member in members}),
        **total_items({"deadLetterCount": details.dead_letters}),
        "popUnackedCount": sum(member["popUnackedCount"] or 0 for member in members),
        "topics": [
            _topic_item(topic, rows, progress.hidden.get(topic)) for topic, rows in _by_topic(progress.rows).items()
        ],
        "members": members,
        "subscriptions": subscriptions,
        "configs": configs,
        "unreadableQueues": unreadable_items(unreadable),
        "leftoverOffsets": [
            {"topic": mq.topic, "brokerName": mq.broker_name, "queueId": mq.queue_id, "consumerOffset": offset}
            for mq, offset in details.leftovers.items()
        ],
        "notes": [*progress.notes, *_open_notes(details)],
    }
    # Known defects of a version say nothing about the state of the group.
    findings = diagnose(facts, [check for check in CHECKS if not check.code.startswith("VER")]).findings
    item["attention"] = [finding.sentence for finding in findings]
    item["findings"] = [finding_item(finding, facts.at_ms) for finding in findings]
    # summarise() gave the reasons for the sums.
    if not starts:
        item["reasons"]["consumeFromWhere"] = str(progress.unseen_reason or Unknown.NO_MEMBERS)
    elif len(starts) > 1:
        reported = {member["consumeFromWhere"] for member in members} - {None}
        item["reasons"]["consumeFromWhere"] = "MEMBERS_DIFFER" if len(reported) > 1 else "BROKERS_DIFFER"
    item["reasons"] |= total_reasons({"deadLetterCount": details.dead_letters})
    if item["liteBindTopic"] is None:
        item["reasons"]["liteBindTopic"] = NOT_LITE
    return item


def _open_notes(details: "GroupDetails") -> list[str]:
    """Return a note on what one reading leaves open, if messages are waiting or in flight."""
    progress = details.progress
    in_hand = any(held.in_hand_count for info in details.running.ok.values() for held in info.process_queues.values())
    if progress.state is not GroupState.ONLINE or not (in_hand or any(row.lag != 0 for row in progress.rows)):
        return []
    return [f"To see what moves between two readings: rmqctl diagnose {shlex.quote(progress.group)}"]


def _starts(details: "GroupDetails", members: list[dict[str, Any]]) -> set[str]:
    """Return where members start without an offset, as each of them reports it.

    A broker knows only what the last heartbeat reported; that is used for members that do not answer.
    """
    reported = {member["consumeFromWhere"] for member in members} - {None}
    if reported and all(member["consumeFromWhere"] for member in members):
        return reported
    at_brokers = {found.consume_from_where for found in details.connections.values() if found is not None}
    return reported | (at_brokers - {""})


def _by_topic(rows: tuple[QueueProgress, ...]) -> dict[str, list[QueueProgress]]:
    topics: dict[str, list[QueueProgress]] = {}
    for row in rows:
        topics.setdefault(row.mq.topic, []).append(row)
    return topics


def _topic_item(topic: str, rows: list[QueueProgress], hidden: Unknown | None) -> dict[str, Any]:
    """Sum up a topic's rows; `hidden` is why it may have queues without a row."""
    totals = {
        "queueCount": total([(len(rows), "")], hidden=hidden),
        **sum_rows(rows, ("lag", "lost", "inflight", "duplicateRisk"), hidden=hidden),
    }
    ages = [row.time_lag_ms for row in rows if row.time_lag_ms is not None]
    ageless = [hidden] if hidden is not None else [row.reasons["timeLagMs"] for row in rows if row.time_lag_ms is None]
    # The owners are unknown while a member does not answer, or may be behind a proxy.
    reasons = {row.reasons.get("clientId") for row in rows}
    unreported = next((reason for reason in (Unknown.CLIENT_SILENT, Unknown.BEHIND_PROXY) if reason in reasons), None)
    return {
        "topic": topic,
        **total_items(totals),
        "ownedQueueCount": sum(bool(row.client_ids) for row in rows) if unreported is None else None,
        # Several members may pop from one queue.
        "sharedQueueCount": sum(
            len(row.client_ids) > 1 and row.reasons.get("inflight") is not Unknown.POP for row in rows
        ),
        "beyondMaxQueueCount": sum(row.reasons.get("lag") is Unknown.OFFSET_BEYOND_MAX for row in rows),
        "timeLagMs": None if ageless else max(ages),
        "reasons": total_reasons(totals)
        | ({"timeLagMs": str(ageless[0])} if ageless else {})
        | ({} if unreported is None else {"ownedQueueCount": str(unreported)}),
    }


def _sections(item: Item, is_wide: bool) -> list[Section]:
    parts = [Section(facts=_facts(item))]
    if item["topics"]:
        parts.append(Section("Topics", columns=_TOPIC_COLUMNS, items=item["topics"]))
    if item["members"]:
        parts.append(Section("Members", columns=MEMBER_COLUMNS, items=item["members"]))
    if item["subscriptions"]:
        parts.append(Section("Subscriptions", columns=SUBSCRIPTION_COLUMNS, items=item["subscriptions"]))
    if is_wide or any(config["differingFields"] or not config["isConfigured"] for config in item["configs"]):
        parts.append(Section("Configuration", columns=CONFIG_COLUMNS, items=item["configs"]))
    if item["attention"]:
        parts.append(Section("Attention", facts=[(each["code"], _seen(each)) for each in item["findings"]]))
    return parts


def _seen(finding: Item) -> str:
    if finding["isConfirmed"]:
        return str(finding["sentence"])
    return f"{finding['sentence']} (seen once: may be temporary, for example during a rebalance)"


def _facts(item: Item) -> list[tuple[str, str]]:
    facts = [("Group", item["group"]), ("State", _state(item))]
    for heading, key in (
        ("Consume type", "consumeType"),
        ("Message model", "messageModel"),
    ):
        if item[key] is not None:
            facts.append((heading, item[key]))
    if item["liteBindTopic"] is not None:
        facts.append(("Lite topics", f"of {item['liteBindTopic']} (RIP-83): each client subscribes to some by name"))
    facts += _start_facts(item)
    if item["strategies"]:
        facts.append(("Strategy", ", ".join(item["strategies"])))
    if item["clientVersions"]:
        facts.append(("Clients", ", ".join(item["clientVersions"])))
    facts.append(("Lag", f"{total_words(item, 'lag')}, {show_tps(item['consumeTps'])}"))
    facts.append(("Dead letters", total_words(item, "deadLetterCount")))
    settled = [config for config in item["configs"] if config["isConfigured"]]
    if settled and not settled[0]["differingFields"]:
        count = settled[0]["retryQueueNums"]
        queues = f"{_or_dash(count)} retry queue{'s' if count != 1 else ''} per broker"
        facts.append(("Retries", f"{_retry_words(item, settled[0]['retryMaxTimes'])}, {queues}"))
    facts += [("Note", note) for note in item["notes"]]
    return facts


def _start_facts(item: Item) -> list[tuple[str, str]]:
    if item["consumeFromWhere"] is not None:
        return [("Starts", item["consumeFromWhere"])]
    reported = by_value((member["clientId"], member["consumeFromWhere"]) for member in item["members"])
    said = ", ".join(f"{where} ({listed(client_ids)})" for where, client_ids in reported.items())
    return [("Starts", said)] if said else []


def _retry_words(item: Item, configured: int | None) -> str:
    """Return the group's retry limit, and the members' if it differs: their limit applies."""
    limits = list(by_value((member["clientId"], _limit_of(member)) for member in item["members"]))
    if configured is None or not limits or limits == [configured]:
        return _or_dash(configured)
    return f"{_or_dash(configured)} (configured); members use {' and '.join(map(limit_words, limits))}"


def _limit_of(member: Item) -> int | None:
    """Return how often a push member has a message redelivered, None if that is unknown or does not apply."""
    if member["consumeType"] != CONSUME_PASSIVELY:
        return None
    return retry_limit(member["maxReconsumeTimes"], is_orderly=member["isOrderly"])


def _or_dash(value: Any) -> str:
    return "-" if value is None else str(value)


def _state(item: Item) -> str:
    if item["state"] == GroupState.ONLINE:
        count = item["memberCount"]
        return f"ONLINE, {counted(count, 'member')}"
    reason = item["reasons"].get("memberCount")
    return f"{item['state']}: {no_members(item['group'], None if reason is None else Unknown(reason))}"


def _show_age(item: Item) -> str:
    return "-" if item["timeLagMs"] is None else short_duration(item["timeLagMs"])


_TOPIC_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("QUEUES", "queueCount", show=show_total("queueCount"), is_number=True),
    Column(
        "HELD",
        "ownedQueueCount",
        is_number=True,
        is_alarm=lambda item: item["ownedQueueCount"] not in (None, item["queueCountAtLeast"]),
    ),
    Column("LAG", "lag", show=show_total("lag"), is_number=True, is_alarm=lambda item: bool(item["lagAtLeast"])),
    Column("LOST", "lost", show=show_total("lost"), is_number=True, is_alarm=lambda item: bool(item["lostAtLeast"])),
    Column("IN-FLIGHT", "inflight", show=show_total("inflight"), is_number=True),
    Column(
        "DUP-RISK",
        "duplicateRisk",
        show=show_total("duplicateRisk"),
        is_number=True,
        is_alarm=lambda item: bool(item["duplicateRiskAtLeast"]),
    ),
    Column("TIME-LAG", "timeLagMs", show=_show_age, is_number=True),
)

_COLUMNS = (
    Column("GROUP", "group"),
    Column("STATE", "state"),
    Column("MEMBERS", "memberCount", is_number=True),
    Column("LAG", "lag", show=show_total("lag"), is_number=True),
    Column("LOST", "lost", show=show_total("lost"), is_number=True),
    Column("DEAD", "deadLetterCount", show=show_total("deadLetterCount"), is_number=True),
    Column("TYPE", "consumeType"),
    Column("MODEL", "messageModel"),
    Column("ATTENTION", "attention", show=lambda item: " ".join(item["attention"]) or "-"),
)
