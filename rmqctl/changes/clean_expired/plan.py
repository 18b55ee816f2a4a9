"""Plans to move past stuck messages: which are sent back, and where each queue moves then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing

from msgspec import Struct

from rmqctl.admin.groups.retry_places import fetch_retry_places
from rmqctl.admin.messages.pull import pull_queue
from rmqctl.admin.results import all_failed, ask_all
from rmqctl.changes.clean_expired.rules.blocking import find_block
from rmqctl.changes.clean_expired.rules.methods import (
    CleanMethod,
    CleanScope,
    are_dead,
    find_methods,
    finished_words,
    mark_dead,
)
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.group_lookup import FoundGroup, find_group, find_unreported
from rmqctl.changes.offsets.plan import new_plan, unseen_consequences
from rmqctl.changes.offsets.rules.route import choose_route, describe_routes, require_one_way, require_resettable
from rmqctl.changes.plan_parts import PlanReport, broker_of, unseen_item
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError, RmqctlError, UsageError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.plan import CleanStep, Consequence, ListenerBlock, Operation, PlanItem, ReturnedMessage, Route
from rmqctl.model.progress import PulledSource, QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.observe.stuck_scan import StuckQueue, StuckScan
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.protocol.sends import RETRY_TOPIC
from rmqctl.rules.group_state import reason_of
from rmqctl.rules.member_settings import DEFAULT_RETRIES, NO_LIMIT, retry_limit
from rmqctl.rules.pop_handles import normal_topic
from rmqctl.rules.retry_places import HINDRANCES
from rmqctl.rules.stuck_queues import StuckReason
from rmqctl.text.words import counted, listed

from .left_alone import find_left_alone
from .pop_plan import describe_acknowledged, pop_items, require_retry_reader
from .rights import find_missing_rights

DEAD_LETTER_LEVEL = -1
DEFAULT_LEVEL = 3
# The longest of messageDelayLevel's default levels; a broker treats a higher one as its last.
_HIGHEST_LEVEL = 18
# For these, the message is at the head of its queue, in flight in one client, or popped.
_CLEANED = frozenset(
    {
        StuckReason.IN_CONSUMPTION,
        StuckReason.BLOCKED_IN_ORDER,
        StuckReason.IN_HAND,
        StuckReason.LOCAL_RETRY,
        StuckReason.POPPED,
    }
)


class CleanRequest(Struct, frozen=True):
    """What is to be cleaned: messages in flight for older_than_ms. `level` is the delay level of their retry.

    `has_queues`: queues were named. A group without members has no messages in flight; there, the first unread message
    of each named queue is cleaned.
    """

    older_than_ms: int
    level: int = DEFAULT_LEVEL
    has_queues: bool = False
    asked: str = ""
    reason: str | None = None


class _Candidate(Struct, frozen=True):
    """A queue that can be cleaned, the methods for its head, the cheapest first, and the messages of the cheapest."""

    queue: StuckQueue
    methods: tuple[CleanMethod, ...]
    messages: tuple[StoredMessage, ...]

    @property
    def mq(self) -> MessageQueue:
        return self.queue.progress.mq


def require_level(level: int) -> None:
    """Raise UsageError for an invalid delay level."""
    if not 0 <= level <= _HIGHEST_LEVEL:
        raise UsageError(
            f"--delay-level must be between 0 and {_HIGHEST_LEVEL}.", hint="Use 0 to let the broker choose."
        )


async def require_cleanable(client: Client, group: str, topics: Sequence[str]) -> None:
    """Raise RefusedError for a group of which no queue can be cleaned, before it is watched. Raises as find_group()."""
    found = await find_group(client, group, topics)
    is_server_side = [each for each in found.is_server_side.values() if each]
    require_resettable(found.situation, assume_offline=False, is_server_side=is_server_side)


async def plan_cleaning(client: Client, scan: StuckScan, request: CleanRequest, journal: Journal) -> PlanReport:
    """Return the plan for what a scan found; without items if nothing can be cleaned. Reads the journal only.

    Raises RefusedError for a group that cannot be changed, and when the brokers would not store what is sent back;
    NotAuthorisedError if this account cannot clean any queue to the end.
    """
    meant = [each for each in scan.queues if _is_meant(each, request)]
    topics = tuple(sorted({_topic(scan.group, each) for each in meant}))
    found = await find_group(client, scan.group, topics)
    names = sorted({each.progress.mq.broker_name for each in meant})
    unreported, hidden = await find_unreported(client, found, names)
    unread = {**found.unread(names), **{name: failure.error for name, failure in unreported.items()}}
    if names and unread.keys() >= set(names):
        raise all_failed(unread.values())
    chosen = [each for each in meant if each.progress.mq.broker_name not in unread]
    left_alone = find_left_alone(scan.group, chosen, found.offsets, journal)
    chosen = [each for each in chosen if each.progress.mq not in left_alone]
    names = [name for name in names if name not in unread]
    if any(each.popped is not None for each in chosen):
        require_retry_reader(scan.group, found.filters)
    resets = sorted({each.progress.mq.broker_name for each in chosen if each.popped is None})
    require_resettable(
        found.situation, assume_offline=False, is_server_side=[found.is_server_side.get(name, False) for name in resets]
    )
    require_one_way(found.situation, (each.progress.mq for each in chosen if each.popped is None))
    refused = await _find_refusals(client, scan.group, found, names)
    if refused.keys() >= set(names) and names:
        raise refused[names[0]]
    left = [each for each in chosen if each.progress.mq.broker_name not in refused]
    candidates, failures = await _read_all(client, found, [each for each in left if each.popped is None], request.level)
    popped, unsendable = pop_items(scan.group, [each for each in left if each.popped is not None], request.level)
    unseen = _unseen_items([each.progress for each in meant if each.progress.mq.broker_name in unread], unread)
    failures += [
        *unsendable,
        *(Failure(mq.broker_name, f"stuck messages of {mq}", why, Attempt.WRITE) for mq, why in left_alone.items()),
        *(Failure(item.mq.broker_name, f"stuck messages of {item.mq}", unread[item.mq.broker_name]) for item in unseen),
        *(Failure(name, "stuck messages", error) for name, error in refused.items()),
    ]
    items = (*(_item(found, each, request) for each in sorted(candidates, key=lambda each: each.mq)), *popped)
    closed = await find_missing_rights(client, found.brokers, scan.group, items)
    if items and closed.keys() >= {item.mq for item in items}:
        raise next(iter(closed.values()))
    failures += [Failure(mq.broker_name, f"stuck messages of {mq}", error) for mq, error in closed.items()]
    cleaned = [item for item in items if item.mq not in closed]
    candidates = [each for each in candidates if each.mq not in closed]
    popped = [item for item in popped if item.mq not in closed]
    consequences = (
        *((describe_acknowledged(popped),) if popped else ()),
        *describe_routes(found.situation, {item.route for item in cleaned}),
        *_consequences(scan, candidates, cleaned),
        *unseen_consequences(unseen),
        *hidden,
    )
    plan = await new_plan(
        client,
        found,
        (*cleaned, *unseen),
        consequences,
        operation=Operation.CLEAN_EXPIRED,
        asked=request.asked,
        reason=request.reason,
    )
    return PlanReport(plan, (*found.failures, *failures))


def _topic(group: str, queue: StuckQueue) -> str:
    """Return the topic for reading a queue's group: pop retry topics reach name servers up to 30 s late."""
    topic = queue.progress.mq.topic
    return topic if queue.popped is None else normal_topic(group, topic)


def _unseen_items(rows: Iterable[QueueProgress], unread: Mapping[str, RmqctlError]) -> list[PlanItem]:
    """Return the items of queues whose brokers were not read; several popped messages of a queue are one item."""
    offsets = {row.mq: row.consumer_offset for row in rows}
    return [
        unseen_item(mq, (error := unread[mq.broker_name]).sentence, reason=str(reason_of([error])), before=offset)
        for mq, offset in sorted(offsets.items())
    ]


def _is_meant(queue: StuckQueue, request: CleanRequest) -> bool:
    if queue.verdict.is_stuck and queue.verdict.why in _CLEANED:
        return True
    is_unread = queue.verdict.why is StuckReason.NO_MEMBERS and request.has_queues
    age_ms = queue.progress.time_lag_ms
    return is_unread and age_ms is not None and age_ms >= request.older_than_ms


async def _find_refusals(
    client: Client, group: str, found: FoundGroup, names: Sequence[str]
) -> dict[str, RefusedError]:
    """Return the brokers that would reject what is sent back, or would acknowledge and lose it, and why."""
    places = await fetch_retry_places(client, group, found.brokers)
    refused = {}
    for name in names:
        hindrance = places[name].hindrance if name in places else None
        if hindrance is not None:
            sentence = f"{name} {HINDRANCES[hindrance]}. A message that cannot be sent back is not acknowledged."
            hint = f"For details: rmqctl group config {group} and rmqctl broker show {name}"
            refused[name] = RefusedError(sentence, hint=hint)
    return refused


async def _read_all(
    client: Client, found: FoundGroup, queues: Sequence[StuckQueue], level: int
) -> tuple[list[_Candidate], list[Failure]]:
    """Return the queues with their messages; a queue whose messages cannot be read is a failure, and left out."""
    by_queue = {each.progress.mq: each for each in queues}
    answers = await ask_all(by_queue, lambda mq: _read(client, found, by_queue[mq], level))
    failures = [Failure(mq.broker_name, f"stuck messages of {mq}", error) for mq, error in answers.failed.items()]
    return list(answers.ok.values()), failures


async def _read(client: Client, found: FoundGroup, queue: StuckQueue, level: int) -> _Candidate:
    mq, row = queue.progress.mq, queue.progress
    if queue.holder is None:
        first = max(row.consumer_offset or 0, row.min_offset or 0)
        methods: tuple[CleanMethod, ...] = (CleanMethod(CleanScope.HEAD, first + 1, (first,), True),)
    else:
        goes_on = queue.verdict.flow_control is not None and found.is_server_side.get(mq.broker_name, False)
        # A client's span limit does not bound what is consumed: its span ends with the last message in flight, not
        # with the last one pulled.
        is_bounded = row.duplicate_risk_source is not PulledSource.CLIENT_WINDOW
        risk = row.duplicate_risk if is_bounded else None
        methods = find_methods(queue.watched, risk, queue.holder.listening_max, goes_on=goes_on)
    if not methods:
        raise NotFoundError("Message", str(mq))
    address = client.require_master(broker_of(found.brokers, mq.broker_name))
    method, *others = methods
    messages = await _fetch(client, address, mq, method.offsets)
    if not method.is_exact and not all(_is_own(found, each) for each in messages):
        # What the filter keeps from the client must not reach it through the retry topic.
        method, *others = others
        messages = await _fetch(client, address, mq, method.offsets)
    for message in messages:
        if message.inner_index is not None:
            raise RefusedError(f"{mq} offset {message.queue_offset} is part of a batch, which is sent back as a whole.")
        if not message.properties.get(UNIQ_KEY):
            raise RefusedError(f"{mq} offset {message.queue_offset} has no unique key: its copy could not be found.")
    times = {each.queue_offset: each.reconsume_times for each in messages}
    methods = mark_dead((method, *others), times, _limit(queue), level)
    return _Candidate(queue, methods, tuple(messages))


def _limit(queue: StuckQueue) -> int:
    """Return how often the holder of a queue has a message redelivered."""
    settings = queue.settings
    limit = None
    if settings is not None:
        limit = retry_limit(settings.max_reconsume_times, is_orderly=settings.is_orderly)
    return DEFAULT_RETRIES if limit is None else min(limit, NO_LIMIT)


async def _fetch(client: Client, address: str, mq: MessageQueue, offsets: Sequence[int]) -> list[StoredMessage]:
    wanted = set(offsets)
    found: list[StoredMessage] = []
    async with aclosing(pull_queue(client, address, mq, min(wanted), max(wanted) + 1)) as pulls:
        async for messages in pulls:
            found += [message for message in messages if message.queue_offset in wanted]
    if len(found) != len(wanted):
        missing = sorted(wanted - {message.queue_offset for message in found})
        raise NotFoundError(f"Offset {missing[0]} of", str(mq))
    return found


def _is_own(found: FoundGroup, message: StoredMessage) -> bool:
    """Return whether a message matches the tags that the group subscribes to."""
    expressions = found.filters.get(message.topic, ("*",))
    return set(expressions) <= {"*"} or all(
        message.tags in {tag.strip() for tag in expression.split("||")} for expression in expressions
    )


def _item(found: FoundGroup, candidate: _Candidate, request: CleanRequest) -> PlanItem:
    queue, method = candidate.queue, candidate.methods[0]
    row, held = queue.progress, queue.watched.last.held
    route = choose_route(
        found.situation, assume_offline=False, is_server_side=found.is_server_side.get(row.mq.broker_name, False)
    )
    messages = tuple(
        ReturnedMessage(
            message.queue_offset, message.commit_log_offset, message.message_id,
            message.properties.get(RETRY_TOPIC) or message.topic, message.reconsume_times,
        )
        for message in candidate.messages
    )  # fmt: skip
    return PlanItem(
        mq=row.mq,
        before=found.offsets.get(row.mq, row.consumer_offset),
        target=method.target,
        route=route,
        min_offset=row.min_offset,
        max_offset=row.max_offset,
        reconsumed=None if method.duplicates_max else 0,
        skipped=0,
        lost=0,
        note=_note(candidate),
        reasons={
            "firstStoreTimestamp": "NOT_LOOKED_UP",
            **({"reconsumed": "IN_FLIGHT"} if method.duplicates_max else {}),
            **({} if row.consumer_offset is not None else {"before": "NEVER_COMMITTED", "change": "NEVER_COMMITTED"}),
        },
        reconsumed_min=0,
        reconsumed_max=method.duplicates_max,
        skipped_min=0,
        skipped_max=0,
        cleaning=CleanStep(
            head_offset=method.offsets[0],
            delay_level=request.level,
            max_reconsume_times=_limit(queue),
            messages=messages,
            client_id=None if queue.holder is None else queue.holder.client_id,
            taken_at_ms=None if held is None or queue.watched.is_orderly is not False else held.locked_at_ms,
            blocked_by=None if queue.holder is None else find_block(queue.holder, queue.watched),
        ),
    )


def _note(candidate: _Candidate) -> str:
    method, *others = candidate.methods
    said = f"{counted(len(method.offsets), 'message')} sent back"
    if method.scope is CleanScope.IN_HAND:
        said += ", all that are in flight in the client"
    for other in others:
        what = "past the head alone" if other.scope is CleanScope.HEAD else "past all in flight"
        said += (
            f"; {what}: {counted(len(other.offsets), 'message')} sent back, up to {other.duplicates_max} consumed twice"
        )
    return said


def _consequences(
    scan: StuckScan, candidates: Sequence[_Candidate], items: Sequence[PlanItem]
) -> Iterator[Consequence]:
    """Yield what cleaning does not do, and what of the scan it leaves out."""
    held = [(each.queue.holder.client_id, each.queue.verdict) for each in candidates if each.queue.holder is not None]
    ids, dead = sorted({client_id for client_id, _ in held}), are_dead(items)
    if ids:
        text = (
            f"The listener of {listed(ids)} keeps its threads until it returns, and may still finish the messages: "
            f"each is then {finished_words(are_dead(item for item in items if item.route is not Route.POP_ACK))}."
        )
        waiting = sum(each.methods[0].waiting_max for each in candidates)
        if waiting:
            text += (
                f" If it returns before the client has moved, up to {counted(waiting, 'more message')} that wait "
                "for it are consumed twice."
            )
        yield Consequence("LISTENER_GOES_ON", text)
    yield from _blocks(items)
    stopped = sorted({client_id for client_id, verdict in held if verdict.flow_control is not None})
    if stopped and any(item.route is Route.SERVER_SIDE for item in items):
        text = (
            f"{listed(stopped)} has reached its flow control limit, and moves to the new offset only when it pulls "
            "again. What it consumes until then is consumed twice. Restart it if the receipt reports that no client "
            "has moved there."
        )
        yield Consequence("FLOW_CONTROLLED", text)
    if dead[True]:
        text = f"{counted(dead[True], 'message')} will become {'a dead letter' if dead[True] == 1 else 'dead letters'}."
        yield Consequence("DEAD_LETTERS", text)
    if dead[False]:
        text = f"{counted(dead[False], 'message')} will be redelivered through the group's retry topic."
        yield Consequence("RETRIED", text)
    undecided = sum(each.verdict.is_stuck is None for each in scan.queues)
    if undecided:
        text = f"{counted(undecided, 'queue')} may also have a stuck message. Use --for to watch for longer."
        yield Consequence("UNDECIDED", text)


def _blocks(items: Sequence[PlanItem]) -> Iterator[Consequence]:
    """Yield which clients consume nothing from the moved queues, as far as they report it."""
    ids: dict[ListenerBlock, set[str]] = {}
    for item in items:
        step = item.cleaning
        if step is not None and step.blocked_by is not None and step.client_id is not None:
            ids.setdefault(step.blocked_by, set()).add(step.client_id)
    for block, (code, text) in _BLOCKS.items():
        if block in ids:
            yield Consequence(code, text.format(ids=listed(sorted(ids[block]))))


_BLOCKS = {
    ListenerBlock.IN_ORDER: (
        "LISTENER_BLOCKS_QUEUE",
        "{ids} consumes in order, and its listener has not returned. Restart it: until then it receives no messages.",
    ),
    ListenerBlock.ALL_THREADS: (
        "LISTENER_BLOCKS_CLIENT",
        "All threads of {ids} are in its listener. Restart it: until one of them returns, it consumes no messages.",
    ),
    ListenerBlock.UNKNOWN: (
        "LISTENER_MAY_BLOCK",
        "{ids} does not report its threads. If all of them are in the listener, restart it: it consumes no messages.",
    ),
}
