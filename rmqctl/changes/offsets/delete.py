"""Plans which offsets are deleted: those of a topic, or those of deleted topics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.config import fetch_topic_config
from rmqctl.changes.offsets.rules.reset import NONE_STORED
from rmqctl.changes.plan_parts import NOT_LOOKED_UP, PlanReport, broker_of, reason_words, unseen_item
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.plan import Consequence, Operation, PlanItem, Route
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.group_state import why_unseen

from .group_lookup import FoundGroup, find_stored, find_unreported, require_configured
from .plan import new_plan


async def plan_deletion(
    client: Client, group: str, topics: Sequence[str], *, leftovers: bool, assume_offline: bool, asked: str,
    reason: str | None,
) -> PlanReport:  # fmt: skip
    """Return the plan for the stored offsets of these topics, and with `leftovers` for those of deleted topics.

    Raises NotFoundError when none are stored, RefusedError for a group that may have members, and for one that
    is not configured at brokers of 5.x.
    """
    found = await find_stored(client, group)
    state = found.situation.state
    if state is not GroupState.EMPTY and not (assume_offline and state is GroupState.UNKNOWN):
        has = "has members"
        if state is GroupState.UNKNOWN:
            has = f"may have members ({why_unseen(found.situation.unseen_reason)})"
        raise RefusedError(f"Group {group} {has}: they would commit their offsets again.", hint="Stop them first.")
    gone, unreported = await _find_gone(client, found)
    wanted = {*topics} | (gone if leftovers else set())
    named = {mq: before for mq, before in sorted(found.offsets.items()) if mq.topic in wanted and before is not None}
    silent, hidden = await find_unreported(client, found, {mq.broker_name for mq in named})
    failures = (*found.failures, *unreported, *silent.values())
    items = (
        *(_item(mq, before, gone) for mq, before in named.items() if mq.broker_name not in silent),
        *_unseen(found, {mq: before for mq, before in named.items() if mq.broker_name in silent}, wanted, failures),
    )
    without = sorted({*topics} - {item.mq.topic for item in items})
    if without and not failures:
        raise NotFoundError("Offset", group).reworded(f"Group {group} has no offsets in {', '.join(without)}.")
    if not items and not failures:
        raise NotFoundError("Offset", group).reworded(f"Group {group} has no offsets of deleted topics.")
    hint = f"Delete the group with all its offsets: rmqctl group delete {group} --with-offsets"
    await require_configured(client, found, {mq.broker_name for mq in named}, hint=hint)
    consequences = (
        Consequence("NONE_STORED", f"{NONE_STORED}."),
        Consequence("BEGINS_ANEW", "The next member starts there as without an offset (ConsumeFromWhere)."),
        *hidden,
    )
    plan = await new_plan(
        client, found, items, consequences, operation=Operation.OFFSET_DELETE, asked=asked, reason=reason
    )
    return PlanReport(plan, failures)


def _item(mq: MessageQueue, before: int, gone: Collection[str]) -> PlanItem:
    note = "its topic does not exist" if mq.topic in gone else ""
    reasons = NOT_LOOKED_UP | {"target": "NONE_STORED"}
    return PlanItem(mq, before, None, Route.BROKER_WRITE, note=note, reasons=reasons)


def _unseen(
    found: FoundGroup, silent: Mapping[MessageQueue, int | None], topics: Collection[str], failures: Sequence[Failure]
) -> Iterator[PlanItem]:
    """Yield the items of queues at brokers that did not report the group (`silent`), or its offsets."""
    reasons = {failure.broker_name: reason_words(failure) for failure in reversed(failures)}
    befores: dict[MessageQueue, int | None] = {**silent} | {
        mq: row.consumer_offset for mq, row in found.rows.items() if mq.topic in topics
    }
    for mq, before in sorted(befores.items()):
        row = found.rows.get(mq)
        reason = str(Unknown.NOT_REPORTED if row is None else row.reasons.get("maxOffset", Unknown.NOT_REPORTED))
        yield unseen_item(mq, reasons.get(mq.broker_name, ""), reason=reason, before=before)


async def _find_gone(client: Client, found: FoundGroup) -> tuple[set[str], list[Failure]]:
    """Return the topics without a route that the brokers with their offsets do not have either, and what failed.

    A name server alone proves nothing: it forgets a topic while the only broker that has it is absent, and knows no
    topic for a while after its own restart.
    """
    places: dict[str, set[str]] = {}
    for mq in found.offsets:
        places.setdefault(mq.topic, set()).add(mq.broker_name)
    routes = await ask_all(sorted(places), client.route)
    unrouted = [topic for topic, error in routes.failed.items() if isinstance(error, NotFoundError)]
    asked = [(topic, name) for topic in unrouted for name in sorted(places[topic])]
    configs = await ask_all(
        asked, lambda place: fetch_topic_config(client, broker_of(found.brokers, place[1]), place[0])
    )
    known = {topic for (topic, _), config in configs.ok.items() if config is not None}
    failures = [Failure(name, f"configuration of {topic}", error) for (topic, name), error in configs.failed.items()]
    failures += [
        Failure(None, f"route of {topic}", error) for topic, error in routes.failed.items() if topic not in unrouted
    ]
    return set(unrouted) - known - {topic for topic, _ in configs.failed}, failures
