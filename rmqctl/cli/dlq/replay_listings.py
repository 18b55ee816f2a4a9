"""A replay as tables and JSON: the plan and the receipt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rmqctl.cli.output.body import BodyStyle, body_fields, excerpt
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.errors import PluginError
from rmqctl.protocol.properties import KEYS, split_keys
from rmqctl.rules.dead_letters import origin_topic
from rmqctl.text.times import iso_time, time_fields
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.changes.dlq.outcome import ReplayOutcome
    from rmqctl.changes.dlq.plan import ReplayPlan
    from rmqctl.changes.dlq.source import DeadLetter
    from rmqctl.model.send_result import OutgoingMessage

_BODY = BodyStyle(max_bytes=256)
# What is sent for a dead letter: itself, or the result of a transform, None if the transform drops it, or its error.
Made: TypeAlias = "DeadLetter | OutgoingMessage | PluginError | None"
Sample = tuple["DeadLetter", Made]


def plan_listing(
    group: str, plan: ReplayPlan, most: int | None, *, is_dry: bool, sample: Sequence[Sample], transform: str | None,
    warnings: Sequence[str],
) -> Listing:  # fmt: skip
    """Make the listing of a plan. `sample` are the first dead letters, with what would be sent for each."""
    return Listing(
        kind="ReplayPlan",
        columns=PLAN_COLUMNS,
        items=[
            {
                "originTopic": origin,
                "targetTopic": topic,
                "count": tally.count,
                "bodyBytes": tally.size_bytes,
                **time_fields("earliestTimestamp", tally.earliest_at_ms),
                **time_fields("lastTimestamp", tally.latest_at_ms),
                "reasons": {} if origin is not None else {"originTopic": "NOT_SET"},
            }
            for (origin, topic), tally in sorted(plan.to_send.items(), key=lambda pair: -pair[1].count)
        ],
        name=lambda item: str(item["targetTopic"]),
        failures=plan.failures,
        extra={
            "group": group,
            "target": plan.target.kind,
            "count": plan.count,
            "notSent": {str(left): count for left, count in plan.not_sent.items()},
            "leftCount": plan.left_count,
            "againCount": plan.again_count,
            "sample": [_sample_item(letter, made) for letter, made in sample],
        },
        headings=list(_headings(group, plan)),
        notes=[*_sample_notes(sample), *_notes(plan, most, is_dry=is_dry, transform=transform)],
        warnings=warnings,
        empty="Nothing to send.",
    )


def _headings(group: str, plan: ReplayPlan) -> Iterator[str]:
    where = f"topic {plan.target.topic}" if plan.target.topic is not None else "their original topics"
    who = f"only {group} consumes them" if plan.target.is_retry else "all subscribed groups consume them"
    yield f"Replay {counted(plan.count, 'dead letter')} of group {group} to {where}: {who}."


def _notes(plan: ReplayPlan, most: int | None, *, is_dry: bool, transform: str | None) -> Iterator[str]:
    yield from plan.notes(most)
    if transform is not None:
        yield f"The transform {transform} is applied to each message, and may drop some."
    if is_dry and plan.to_send:  # else the table itself says so
        yield "Nothing was sent."


def _sample_notes(sample: Sequence[Sample]) -> Iterator[str]:
    if sample:
        yield "The first of them:"
    for letter, made in sample:
        body = _excerpt(made)
        at = iso_time(letter.stored_at_ms) or "-"
        called = letter.properties.get(KEYS) or letter.message_id
        yield f"    {at}  {origin_topic(letter.properties) or '-'}  {called}  {body}"


def _excerpt(made: Made) -> str:
    if made is None:
        return "(dropped)"
    return "(the transform failed)" if isinstance(made, PluginError) else excerpt({"body": None, **_body(made)})


def _body(made: DeadLetter | OutgoingMessage) -> dict[str, Any]:
    return body_fields(made.body, made.properties, "", _BODY)


def _sample_item(letter: DeadLetter, made: Made) -> dict[str, Any]:
    return {
        "brokerName": letter.broker_name,
        "queueId": letter.queue_id,
        "queueOffset": letter.queue_offset,
        "msgId": letter.message_id,
        "originTopic": origin_topic(letter.properties),
        "keys": split_keys(letter.properties.get(KEYS)),
        "tags": letter.properties.get("TAGS"),
        "bodySize": len(letter.body),
        "sentBody": None if made is None or isinstance(made, PluginError) else _body(made)["body"],
        "isDropped": made is None,
    }


def receipt_listing(group: str, plan: ReplayPlan, outcome: ReplayOutcome) -> Listing:
    """Make the listing of a replay's receipt."""
    from rmqctl.changes.dlq.plan import with_failures

    return Listing(
        kind="ReplayReceipt",
        columns=RECEIPT_COLUMNS,
        items=outcome.items(),
        name=lambda item: str(item["targetTopic"]),
        failures=with_failures(outcome.failures, plan.unresolved),
        extra={"group": group, "target": plan.target.kind, "summary": outcome.summary()},
        notes=outcome.notes(),
        empty="Nothing was sent.",
    )


PLAN_COLUMNS = (
    Column("FROM", "originTopic"),
    Column("TO", "targetTopic"),
    Column("COUNT", "count", is_number=True),
    Column("BYTES", "bodyBytes", is_number=True),
    Column("OLDEST", "earliestTimestamp", is_time=True, gives_way=True),
    Column("NEWEST", "lastTimestamp", is_time=True, gives_way=True),
)
RECEIPT_COLUMNS = (
    Column("TO", "targetTopic"),
    Column("SENT", "count", is_number=True),
    Column("SENT-EARLIER", "earlierCount", is_number=True, is_wide=True),
)
