"""Findings that an operator should know before a change: each one a sentence with a code for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.group_state import why_unseen
from rmqctl.text.words import agreeing, counted, listed

from .changes import TrialChanges
from .group_snapshot import GroupSnapshot, LiveGroup
from .outcome import TrialOutcome
from .strategy_match import StrategyMatch

# RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME.
_LOCK_LIVES_S = 60
# A client updates routes every 30 s and rebalances every 20 s.
_NEW_QUEUE_UNSEEN_S = 50


class Concern(Struct, frozen=True):
    """One finding: a sentence for people, and a `code` for scripts that is stable across versions."""

    code: str
    text: str


def find_concerns(
    snapshot: GroupSnapshot, later: GroupSnapshot, changes: TrialChanges, outcome: TrialOutcome,
    match: StrategyMatch | None, *, most_moved_count: int | None, own_error: str | None = None,
) -> tuple[Concern, ...]:  # fmt: skip
    """Return all findings, the worst first.

    `own_error` says why the group's own strategy cannot be computed, when another one is tried.
    """
    live = snapshot.live
    return (
        *_shares(later, outcome),
        *(_unreported(live, own_error) if live is not None else ()),
        *(_group(live, snapshot, outcome, match) if live is not None else ()),
        *(_cost(live, snapshot, changes, outcome) if live is not None else ()),
        *_advice(outcome, most_moved_count),
    )


def _shares(later: GroupSnapshot, outcome: TrialOutcome) -> Iterator[Concern]:
    """Find problems of the shares themselves."""
    for client_id, count in Counter(later.client_ids).items():
        if count > 1:
            times = "twice" if count == 2 else f"{count} times"
            text = f"RocketMQ counts {'both' if count == 2 else 'all of them'} and gives them the same queues."
            yield Concern("DUPLICATE_CLIENT_ID", f"Client id {client_id} is used {times}: {text}")
    if outcome.unowned:
        yield Concern("UNOWNED_QUEUES", f"No client would consume {listed(outcome.unowned)}.")
    if outcome.shared and outcome.strategy != "pop-share":
        text = f"Several clients would consume {listed(outcome.shared)}: its messages are consumed more than once."
        yield Concern("SHARED_QUEUES", text)
    if outcome.idle:
        text = f"{counted(len(outcome.idle), 'client')} would have no queues: {listed(outcome.idle)}."
        yield Concern("IDLE_CLIENTS", text)


def _unreported(live: LiveGroup, own_error: str | None) -> Iterator[Concern]:
    """Find missing reports, so that assumptions replace them."""
    if live.silent_brokers:
        text = "clients that no other broker lists are missing here, and the moves of its queues are unknown."
        yield Concern("SILENT_BROKERS", f"No answer from {listed(live.silent_brokers)}: {text}")
    if live.unseen_reason is Unknown.BEHIND_PROXY:
        text = "Proxies are connected: there may be members behind them that brokers do not list."
        yield Concern("MEMBERS_UNSEEN", text)
    elif live.unseen_reason is not None:
        yield Concern(
            "MEMBERS_UNSEEN", f"It is unknown whether the group has members ({why_unseen(live.unseen_reason)})."
        )
    if live.silent:
        text = "the allocation before the change is computed by the strategy."
        yield Concern("SILENT_CLIENTS", f"{listed(live.silent)} did not report their queues: {text}")
    if own_error is not None:
        yield Concern("OWN_STRATEGY_UNKNOWN", f"The members' own strategy cannot be computed: {own_error}")
    elif live.members and not live.is_popping and not live.strategies:
        text = "No member reports its strategy: RocketMQ's default, averagely, is assumed."
        yield Concern("STRATEGY_UNTOLD", text)


def _group(
    live: LiveGroup, snapshot: GroupSnapshot, outcome: TrialOutcome, match: StrategyMatch | None
) -> Iterator[Concern]:
    """Find existing problems of the group."""
    for broker_name, view in sorted(live.views.items()):
        topics = {mq.topic for mq in snapshot.queues if mq.broker_name == broker_name}
        unseen = sorted(
            client_id for client_id in set(snapshot.client_ids) - set(view) if _connects(live, client_id, topics)
        )
        if unseen:
            text = f"Broker {broker_name} does not list {listed(unseen)}: clients that ask it allocate without them."
            yield Concern("VIEWS_DIFFER", text)
    if len(live.strategies) > 1:
        text = "some queues get several owners, others none."
        yield Concern("STRATEGIES_DIFFER", f"Members allocate by {', '.join(sorted(live.strategies))}: {text}")
    if match is not None and match.as_computed is False:
        text = "They use another strategy, see other members, or have just changed."
        like = f" Their queues match {', '.join(match.matching)}." if match.matching else ""
        yield Concern(
            "NOT_AS_COMPUTED",
            f"Clients without the queues of the group's strategy: {listed(match.differing)}. {text}{like}",
        )
    for topic in snapshot.topics:
        strangers = snapshot.strangers.get(topic, frozenset())
        lacking = sorted(
            client_id
            for client_id, member in live.members.items()
            if not member.may_want(topic) and client_id not in strangers
        )
        if lacking and not topic.startswith(RETRY_PREFIX):
            text = f"Not subscribed to {topic}, so that their share of it is not consumed: {listed(lacking)}."
            yield Concern("NOT_SUBSCRIBED", text)
    yield from _retries(live)
    popping = sorted(client_id for client_id, member in live.members.items() if member.pops)
    if popping and not live.is_popping:
        text = (
            f"{listed(popping)} {'pops' if len(popping) == 1 else 'pop'}, but members also pull: shares are "
            "computed as if all of them pulled. A queue that is popped and pulled is consumed twice."
        )
        yield Concern("POPS_AND_PULLS", text)
    if live.is_popping and outcome.strategy != "pop-share":
        text = "The members pop: brokers allocate the queues, whatever strategy the members report."
        yield Concern("POPPING", text)


def _connects(live: LiveGroup, client_id: str, topics: Collection[str]) -> bool:
    """Tell whether a client connects to a broker of these topics, because it subscribes to one of them."""
    member = live.members.get(client_id)
    return any((member is None or member.may_want(topic)) and not topic.startswith(RETRY_PREFIX) for topic in topics)


def _retries(live: LiveGroup) -> Iterator[Concern]:
    if len({member.is_orderly for member in live.members.values()} - {None}) > 1:
        text = "while a lock is held, brokers since 5.1.1 turn retries that clients send into dead letters."
        yield Concern("ORDERLY_MIXED", f"Some members consume in order and some do not: {text}")
    lacking = [name for name, config in live.configs.items() if config is not None and config.retry_queue_count <= 0]
    if lacking:
        text = f"The group has no retry queues at {listed(lacking)}: failed messages there are acknowledged and lost."
        yield Concern("NO_RETRY_QUEUES", text)


def _cost(live: LiveGroup, snapshot: GroupSnapshot, changes: TrialChanges, outcome: TrialOutcome) -> Iterator[Concern]:
    """Find the costs of the change."""
    known = [move.duplicate_risk for move in outcome.moved if move.duplicate_risk is not None]
    unknown_count = len(outcome.moved) - len(known)
    if sum(known):
        text = f"Up to {counted(sum(known), 'message')} of the moving queues could be consumed twice."
        yield Concern("CONSUMED_TWICE", text)
    if unknown_count:
        text = f"It is unknown how many messages of {counted(unknown_count, 'moving queue')} could be consumed twice."
        yield Concern("CONSUMED_TWICE_UNKNOWN", text)
    if live.consume_from_where in (None, "CONSUME_FROM_LAST_OFFSET") and not live.is_popping:
        yield from _starts(live, snapshot, outcome)
    if any(member.is_orderly for member in live.members.values()):
        yield from _orderly(changes, outcome)
    rows = [live.progress[mq] for mq in outcome.removed if mq in live.progress]
    unread = sum(row.lag for row in rows if row.lag)
    is_known = all(row.lag is not None for row in rows)
    if unread or not is_known:
        messages = f"{'' if is_known else 'At least '}{counted(unread, 'message')}"
        text = f"{messages} in removed queues {agreeing(unread, 'is')} not consumed yet."
        yield Concern("UNREAD_IN_REMOVED_QUEUES", text)


def _starts(live: LiveGroup, snapshot: GroupSnapshot, outcome: TrialOutcome) -> Iterator[Concern]:
    """Find queues that their new owners would start at the end (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET).

    A broker answers 0 instead of "none" for a queue whose first message it still has in memory
    (ConsumerManageProcessor.queryConsumerOffset); whether it does is not visible from outside.
    """
    unless = "unless its broker still has the first message in memory"
    if_unknown = "" if live.consume_from_where is not None else " (if the clients start there, which is unknown)"
    fresh = [mq for mq in outcome.added if not mq.topic.startswith(RETRY_PREFIX)]
    if fresh:
        text = f"messages that arrive before the group sees it (up to {_NEW_QUEUE_UNSEEN_S} s) are skipped, {unless}."
        hint = "Store offset 0 for new queues first to avoid that."
        start = f"would start at the end{if_unknown}"
        yield Concern("NEW_QUEUES_START_LAST", f"{counted(len(fresh), 'new queue')} {start}: {text} {hint}")
    moved = {move.mq for move in outcome.moved}
    skipped = [mq for mq in _never_committed(live, snapshot) if mq in moved]
    if skipped:
        text = f"the new owner starts at its end{if_unknown}, and skips its messages, {unless}."
        yield Concern("MOVED_QUEUES_START_LAST", f"No offset is stored for {listed(skipped)}: {text}")


def _never_committed(live: LiveGroup, snapshot: GroupSnapshot) -> list[MessageQueue]:
    return [
        mq
        for mq in snapshot.queues
        if mq in live.progress
        and live.progress[mq].reasons.get("consumerOffset") is Unknown.NEVER_COMMITTED
        and live.progress[mq].max_offset != 0
        and not mq.topic.startswith(RETRY_PREFIX)
    ]


def _orderly(changes: TrialChanges, outcome: TrialOutcome) -> Iterator[Concern]:
    had = [move for move in outcome.moved if move.before]
    left = [move for move in had if not set(move.before) & set(outcome.after)]
    if left and changes.remove_clients:
        text = f"no client consumes them until the locks are released, at shutdown or {_LOCK_LIVES_S} s after a crash."
        queues = counted(len(left), "orderly queue")
        yield Concern("ORDERLY_QUEUES_STALL", f"{queues} of clients that leave: {text}")
    staying = len(had) - len(left)
    if staying:
        text = "each waits until its old owner has finished its messages, and is retried every 20 s."
        queues = counted(staying, "orderly queue")
        yield Concern("ORDERLY_QUEUES_MOVE", f"{queues} would move between clients: {text}")


def _advice(outcome: TrialOutcome, most_moved_count: int | None) -> Iterator[Concern]:
    if most_moved_count is not None and most_moved_count != len(outcome.moved):
        text = f"{most_moved_count} queues would move if they sorted first. Name them (--add-clients ID) to be certain."
        yield Concern("NEW_IDS_UNKNOWN", f"Unnamed additions are assumed to sort last: {text}")
    if outcome.strategy == "consistent-hash":
        text = "Consistent hashing is uneven and hard to trace: an averaging strategy is simpler."
        yield Concern("HARD_TO_TRACE", text)


def find_weight_concerns(snapshot: GroupSnapshot, weights: Mapping[MessageQueue, float]) -> Iterator[Concern]:
    """Find queues of unknown work, for a strategy that allocates by work."""
    unknown = [mq for mq in snapshot.queues if mq not in weights]
    if not weights:
        yield Concern("WEIGHTS_UNKNOWN", "The work in all queues is unknown: lag-weighted treats them as equal.")
    elif unknown:
        text = f"The work in {listed(unknown)} is unknown: lag-weighted treats it as none."
        yield Concern("WEIGHTS_UNKNOWN", text)
