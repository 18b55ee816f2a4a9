"""Plans to have one group consume a message once more: from its retry topic, or directly by one member."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.messages.lookup import find_by_ids
from rmqctl.admin.messages.pull import FoundMessage
from rmqctl.admin.offsets.passages import fetch_passages
from rmqctl.admin.rules.passage import GroupPassage, Verdict
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.plan_parts import PlanReport, broker_of, cluster_label, new_id
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError, UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX
from rmqctl.model.plan import CleanStep, Consequence, Operation, Plan, PlanItem, ReturnedMessage, Route
from rmqctl.model.topic import TopicKind
from rmqctl.rules.group_state import why_unseen
from rmqctl.rules.topics import kind_of, own_topics

from .group import GroupAtBroker, find_group, require_retries

# A copy waits at least for the shortest delay level, 1 s unless messageDelayLevel says otherwise.
_SHORTEST_LEVEL = 1
_SHOWN = 5


class ResendRequest(Struct, frozen=True):
    """A message by its id, and the group that is to consume it again; `topic` is for an id that is a unique key.

    `is_direct`: one member consumes it now; `client_id` is that member, None for any. `is_again`: even if it was resent
    before, from this machine.
    """

    message_id: str
    group: str
    topic: str | None = None
    is_direct: bool = False
    client_id: str | None = None
    is_again: bool = False
    asked: str = ""
    reason: str | None = None


class _Found(Struct, frozen=True):
    """The message, and the group at the broker that stores it. `passage`: None if it has no offset and no members."""

    place: FoundMessage
    at: GroupAtBroker
    passage: GroupPassage | None


async def plan_resend(client: Client, request: ResendRequest, journal: Journal) -> PlanReport:
    """Return the plan that has a group consume a message once more.

    Raises RefusedError if the group cannot get it that way, or got it before, NotFoundError for an unknown message,
    group or member, UsageError for an id of several messages, and the errors of the message's broker.
    """
    found = await _find(client, request)
    message = found.place.message
    if message is None:
        raise found.place.error or AssertionError("a message without an error is readable")
    mq, queue_offset = found.place.mq, found.place.queue_offset
    last = journal.last_resend(request.group, mq, queue_offset, message.message_id)
    if last is not None and not request.is_again:
        sentence = f"Change {last} resent this message to group {request.group}, or may have."
        raise RefusedError(sentence, hint=f"See rmqctl offset history {last}; add --again to resend it once more.")
    client_id = _member(found.at, request) if request.is_direct else None
    if not request.is_direct:
        require_retries(found.at, message.reconsume_times)
    sent = ReturnedMessage(
        queue_offset, message.commit_log_offset, message.message_id, message.topic, message.reconsume_times
    )
    item = PlanItem(
        mq, None, None, Route.DIRECT if request.is_direct else Route.RETRY_TOPIC,
        cleaning=CleanStep(queue_offset, _SHORTEST_LEVEL, found.at.most_retries, (sent,), client_id),
    )  # fmt: skip
    again = [Consequence("AGAIN", f"Change {last} resent it before, or may have.")] if last is not None else []
    now_ms = client.clock.now_ms()
    plan = Plan(
        id=new_id(now_ms),
        operation=Operation.MESSAGE_RESEND,
        created_at_ms=now_ms,
        cluster=cluster_label((await fetch_cluster(client)).brokers, client.name_servers),
        brokers={mq.broker_name: client.require_master(found.at.broker)},
        group=request.group,
        route=item.route,
        asked=request.asked,
        reason=request.reason,
        state=found.at.state,
        consume_type=found.at.consume_type,
        message_model=found.at.message_model,
        client_ids=found.at.client_ids,
        items=(item,),
        consequences=(*again, *_effects(found, request, client_id)),
    )
    return PlanReport(plan, ())


async def _find(client: Client, request: ResendRequest) -> _Found:
    place = await _find_message(client, request)
    cluster = await fetch_cluster(client)
    broker = broker_of({each.broker_name: each for each in cluster.brokers}, place.mq.broker_name)
    _require_consumable(place, own_topics(cluster))
    at = await find_group(client, broker, request.group)
    report = await fetch_passages(client, [place], groups=[request.group])
    if report.failures:
        raise report.failures[0].error
    (passages,) = report.messages
    return _Found(place, at, next(iter(passages.groups or ()), None))


async def _find_message(client: Client, request: ResendRequest) -> FoundMessage:
    lookup = await find_by_ids(client, [request.message_id], request.topic)
    if lookup.failures:
        raise lookup.failures[0].error
    if len(lookup.found) > 1:
        sentence = f"{request.message_id} is the id of {len(lookup.found)} messages."
        raise UsageError(sentence, hint="Use the broker's id of one of them: rmqctl message get ID --topic TOPIC")
    return lookup.found[0]


def _require_consumable(place: FoundMessage, own: frozenset[str]) -> None:
    """Raise RefusedError for a message that groups do not consume where it is stored."""
    topic = place.mq.topic
    if place.wait is not None:
        raise RefusedError(f"The message waits in {topic}: it has not been delivered yet.")
    if topic.startswith(DLQ_PREFIX):
        hint = f"To send dead letters again: rmqctl dlq replay {topic.removeprefix(DLQ_PREFIX)}"
        raise RefusedError(f"{topic} contains dead letters.", hint=hint)
    if kind_of(topic, own) not in (TopicKind.NORMAL, TopicKind.LIGHT):
        raise RefusedError(f"{topic} is not a topic of applications.", hint="Use the id of the original message.")
    if place.message is not None and place.message.inner_index is not None:
        raise RefusedError("The message is part of a stored batch, which brokers send back only as a whole.")


def _member(at: GroupAtBroker, request: ResendRequest) -> str:
    """Return the member that is to consume the message: any that is connected to its broker, or the requested one."""
    name, ids = at.broker.broker_name, at.client_ids
    if not ids:
        why = f" It may have others ({why_unseen(at.unseen)})." if at.state is GroupState.UNKNOWN else ""
        raise RefusedError(f"Group {request.group} has no member that is connected to {name}.{why}")
    if request.client_id is None:
        return ids[0]
    if request.client_id not in ids:
        error = NotFoundError("Client", request.client_id, suggestions=ids[:_SHOWN])
        raise error.reworded(f"Client {request.client_id} of group {request.group} is not connected to {name}.")
    return request.client_id


def _effects(found: _Found, request: ResendRequest, client_id: str | None) -> Iterator[Consequence]:
    group, topic, at = request.group, found.place.mq.topic, found.at
    name = at.broker.broker_name
    if client_id is not None:
        text = (
            f"The listener of {client_id} consumes the message once, now. Its result is reported; nothing is "
            "committed, and a failure is not retried."
        )
        yield Consequence("DIRECT", text)
    else:
        text = f"A copy is stored in {RETRY_PREFIX}{group} at {name}; only {group} consumes it."
        yield Consequence("COPY", text)
    yield _passed(found)
    if at.connections is not None and topic not in at.connections.subscriptions:
        yield Consequence("NOT_SUBSCRIBED", f"No member subscribes to {topic}: the listener may not expect it.")
    if at.state is GroupState.EMPTY:
        yield Consequence("NO_MEMBERS", f"The group has no members at {name}: the copy waits.")
    if at.state is GroupState.UNKNOWN:
        text = f"Whether the group has members at {name} is unknown ({why_unseen(at.unseen)})."
        yield Consequence("MEMBERS_UNKNOWN", text)


def _passed(found: _Found) -> Consequence:
    mq, passage = found.place.mq, found.passage
    if passage is None or passage.consumer_offset is None:
        return Consequence("NO_OFFSET", f"The group has no offset of {mq}: it may get the message twice.")
    at = f"offset {passage.consumer_offset} of {mq}"
    if passage.verdict is Verdict.PASSED:
        return Consequence("PASSED", f"The group has passed the message ({at}).")
    if passage.verdict is Verdict.NOT_YET:
        text = f"The group has not committed the message yet ({at}): it gets the message twice."
        return Consequence("NOT_PASSED", text)
    if passage.verdict is Verdict.FILTERED and passage.subscription is not None:
        text = f"The group's filter ({passage.subscription.expression}) excludes the message: its listener gets it now."
        return Consequence("FILTERED", text)
    why = passage.reasons.get("verdict", "NOT_REPORTED")
    text = f"Whether the group has passed the message is not known ({why}, {at}): it may get the message twice."
    return Consequence("MAY_BE_IN_FLIGHT", text)


def required_message(plan: Plan) -> tuple[PlanItem, CleanStep, ReturnedMessage]:
    """Return the only item of a plan, and its message. Raises UsageError for a plan of another form."""
    steps = [(item, item.cleaning) for item in plan.items if item.cleaning is not None]
    if len(steps) != 1 or len(plan.items) != 1 or len(steps[0][1].messages) != 1:
        raise UsageError("A plan to resend names one message.")
    item, step = steps[0]
    return item, step, step.messages[0]
