"""rmqctl topic list: every topic of the cluster, and where its brokers disagree."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.totals import show_total, total_items, total_reasons
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX
from rmqctl.model.topic import TOPIC_FINDINGS, TopicConfig, TopicFinding
from rmqctl.rules.topics import permission_words
from rmqctl.rules.totals import total
from rmqctl.text.numbers import rate_cell
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.admin.topics.list import TopicList, TopicSummary

HELP = """\b
Examples:
  rmqctl topic list
  rmqctl topic list 'pay*' orders
  rmqctl topic list '%DLQ%*' --with-stats --where 'messageCount>0'
  rmqctl topic list --with-stats --sort -topicPutTps
  rmqctl topic list -o json | jq '.items[] | select(.findings != [])'

\b
Columns:
  QUEUES     sum of all brokers; "6r/8w" if read and write counts differ
  TYPE       the attribute message.type, since 5.0
  FINDINGS   inconsistencies; the notes explain them

In patterns, * matches any text and ? one character. Retry, dead-letter and system topics are shown only if a pattern
matches them, or with --system."""


def command(
    ctx: typer.Context,
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="[PATTERN]...", help="Topics: names, or patterns with * and ?.")
    ] = None,
    system: Annotated[bool, typer.Option("--system", help="Also show retry, dead-letter and system topics.")] = False,
    with_stats: Annotated[
        bool, typer.Option("--with-stats", help="Also show messages, rate and last write; one request per topic.")
    ] = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.topics.list import fetch_topic_list

    invocation = Invocation(ctx)
    choose_columns(_columns(with_stats=with_stats), invocation.display)
    wanted = tuple(invocation.full_name(pattern) for pattern in patterns or ())
    among = () if wanted or invocation.full_name("*") == "*" else tuple(map(invocation.full_name, _OF_A_NAMESPACE))
    topics = invocation.ask(
        lambda client: fetch_topic_list(client, wanted, among=among, with_system=system, with_stats=with_stats)
    )
    is_whole = not wanted and not among and not topics.failures
    invocation.remember("topics", (topic.topic for topic in topics.topics), is_whole=is_whole)
    return render(to_listing(topics, with_stats=with_stats), invocation.display)


_OF_A_NAMESPACE = ("*", f"{RETRY_PREFIX}*", f"{DLQ_PREFIX}*")


def to_listing(topics: "TopicList", *, with_stats: bool = False) -> Listing:
    """Return the listing of all topics."""
    return Listing(
        kind="TopicList",
        columns=_columns(with_stats=with_stats),
        items=[_item(topic) for topic in topics.topics],
        name=lambda item: str(item["topic"]),
        failures=topics.failures,
        notes=_notes(topics),
        empty="No user topics.",
    )


def _notes(topics: "TopicList") -> list[str]:
    count = len(topics.topics)
    notes = [f"{counted(count, 'topic')}{' in the part that was read' if topics.failures else ''}."]
    if topics.hidden_count:
        hidden = counted(topics.hidden_count, "retry, dead-letter or system topic", "is")
        notes.append(f"{hidden} not shown; --system shows them.")
    found = Counter(finding for topic in topics.topics for finding in topic.findings)
    return notes + [f"{finding} ({found[finding]}): {TOPIC_FINDINGS[finding]}." for finding in sorted(found)]


def _item(topic: "TopicSummary") -> dict[str, Any]:
    configs = list(topic.configs.values())
    reasons: dict[str, str] = {}
    unknown = TopicFinding.NOT_ON_BROKER.value if topic.is_whole else "BROKER_UNREACHABLE"

    def same(key: str, values: Sequence[Any]) -> Any:
        """Return the value that all brokers report, None if they differ."""
        if values and all(value == values[0] for value in values):
            return values[0]
        reasons[key] = "BROKERS_DIFFER" if values else unknown
        return None

    message_type = same("messageType", [config.attributes.get("message.type") for config in configs])
    if message_type is None:
        reasons.setdefault("messageType", "NOT_SET")
    hidden = None if topic.is_whole else unknown
    totals = {
        "readQueueNums": total(((config.read_queue_count, "") for config in configs), hidden=hidden, nothing=unknown),
        "writeQueueNums": total(((config.write_queue_count, "") for config in configs), hidden=hidden, nothing=unknown),
    }
    reasons |= total_reasons(totals)
    item = {
        "topic": topic.topic,
        "kind": topic.kind,
        "messageType": message_type,
        **total_items(totals),
        "perm": same("perm", [config.perm for config in configs]),
        "order": same("order", [config.is_ordered for config in configs]),
        "atNameServer": topic.at_name_server,
        "brokerNames": list(topic.configs),
        "brokers": [_broker(name, config) for name, config in topic.configs.items()],
        "findings": list(topic.findings),
        "reasons": reasons,
    }
    return item if topic.stats is None else {**item, **_stats(topic, reasons)}


def _broker(name: str, config: TopicConfig) -> dict[str, Any]:
    return {
        "brokerName": name,
        "readQueueNums": config.read_queue_count,
        "writeQueueNums": config.write_queue_count,
        "perm": config.perm,
        "order": config.is_ordered,
        "attributes": dict(config.attributes),
    }


def _stats(topic: "TopicSummary", reasons: dict[str, str]) -> dict[str, Any]:
    reported = topic.stats or {}
    is_whole = topic.is_whole and set(reported) == set(topic.configs)
    queues = [queue for stats in reported.values() for queue in stats.queues.values()]
    rates = [stats.put_tps for stats in reported.values()]
    written = [queue.last_update_at_ms for queue in queues if queue.last_update_at_ms is not None]
    kept = ((queue.message_count, "") for queue in queues)
    totals = {"messageCount": total(kept, hidden=None if is_whole else "BROKER_UNREACHABLE")}
    reasons |= total_reasons(totals)
    if not is_whole:
        reasons |= dict.fromkeys(("topicPutTps", "lastUpdateTimestamp"), "BROKER_UNREACHABLE")
    else:
        if None in rates:
            reasons["topicPutTps"] = "BROKER_TOO_OLD"
        if not written:
            reasons["lastUpdateTimestamp"] = "NO_MESSAGES"
    last_at_ms = max(written) if is_whole and written else None
    return {
        **total_items(totals),
        "topicPutTps": sum(rate or 0 for rate in rates) if "topicPutTps" not in reasons else None,
        **time_fields("lastUpdateTimestamp", last_at_ms),
    }


def _show_queues(item: Item) -> str:
    reads, writes = (show_total(key)(item) for key in ("readQueueNums", "writeQueueNums"))
    return reads if reads == writes else f"{reads}r/{writes.removeprefix('>=')}w"


def _show_perm(item: Item) -> str:
    if item["perm"] is not None:
        return permission_words(item["perm"])
    return "differs" if item["reasons"]["perm"] == "BROKERS_DIFFER" else "-"


def _show_order(item: Item) -> str:
    return {True: "yes", False: "no", None: "-"}[item["order"]]


def _show_each(item: Item) -> str:
    return ",".join(f"{each['brokerName']}:{each['readQueueNums']}" for each in item["brokers"]) or "-"


def _columns(*, with_stats: bool) -> tuple[Column, ...]:
    return (*_FIRST, *(_STATS if with_stats else ()), *_LAST)


_FIRST = (
    Column("TOPIC", "topic"),
    Column("KIND", "kind"),
    Column("TYPE", "messageType", gives_way=True),
    Column("QUEUES", "readQueueNums", show=_show_queues, is_number=True),
    Column("WRITE-QUEUES", "writeQueueNums", show=show_total("writeQueueNums"), is_number=True, is_wide=True),
    Column("PERM", "perm", show=_show_perm, is_alarm=lambda item: item["perm"] not in (6, 7)),
    Column("ORDER", "order", show=_show_order, is_wide=True),
)
_STATS = (
    Column("MESSAGES", "messageCount", show=show_total("messageCount"), is_number=True),
    Column("IN/S", "topicPutTps", show=lambda item: rate_cell(item["topicPutTps"]), is_number=True),
    Column("LAST-WRITE", "lastUpdateTimestamp", is_time=True, gives_way=True),
)
_LAST = (
    Column("BROKERS", "brokerNames", show=lambda item: ",".join(item["brokerNames"]) or "-", gives_way=True),
    Column("EACH", "brokers", show=_show_each, is_wide=True),
    Column(
        "FINDINGS",
        "findings",
        show=lambda item: ",".join(item["findings"]),
        is_alarm=lambda item: bool(item["findings"]),
    ),
)
