"""What an operator should know before making a change: each finding a sentence with a name for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.words import counted, listed

from .changes import Changes
from .looks import Looks
from .outcome import Outcome
from .scene import LiveGroup, Scene

# RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME.
_LOCK_LIVES_S = 60
# A client asks for routes every 30 s and shares every 20 s.
_NEW_QUEUE_UNSEEN_S = 50


class Concern(Struct, frozen=True):
    """One finding: a sentence for people, and a `code` for scripts that stays the same over versions."""

    code: str
    text: str


def find_concerns(
    scene: Scene, later: Scene, changes: Changes, outcome: Outcome, looks: Looks | None, *,
    most_moved_count: int | None, own_error: str | None = None,
) -> tuple[Concern, ...]:  # fmt: skip
    """Return everything worth saying, the worst first.

    `own_error` says why what the group shares by can't be computed, when it is not what was tried.
    """
    live = scene.live
    return (
        *_shares(later, outcome),
        *(_untold(live, own_error) if live is not None else ()),
        *(_group(live, scene, outcome, looks) if live is not None else ()),
        *(_cost(live, scene, changes, outcome) if live is not None else ()),
        *_advice(outcome, most_moved_count),
    )


def _shares(later: Scene, outcome: Outcome) -> Iterator[Concern]:
    """Find what is wrong with the shares themselves."""
    for client_id, count in Counter(later.client_ids).items():
        if count > 1:
            text = "RocketMQ counts each of them, and all of them take the same share."
            yield Concern("DUPLICATE_CLIENT_ID", f"Client id {client_id} stands {count} times: {text}")
    if outcome.unowned:
        yield Concern("UNOWNED_QUEUES", f"Nobody would consume {listed(outcome.unowned)}.")
    if outcome.shared and outcome.strategy != "pop-share":
        text = f"Several clients would consume {listed(outcome.shared)}: all of its messages twice."
        yield Concern("SHARED_QUEUES", text)
    if outcome.idle:
        text = f"{counted(len(outcome.idle), 'client')} would have no queue: {listed(outcome.idle)}."
        yield Concern("IDLE_CLIENTS", text)


def _untold(live: LiveGroup, own_error: str | None) -> Iterator[Concern]:
    """Find what nobody told, so that something stands for it."""
    if live.silent_brokers:
        text = "clients that no other broker names are missing here, and what moves there is not known."
        yield Concern("SILENT_BROKERS", f"No word from {listed(live.silent_brokers)}: {text}")
    if live.unseen_reason is Unknown.BEHIND_PROXY:
        text = "Proxies are connected: there may be members behind them, which no broker names."
        yield Concern("MEMBERS_UNSEEN", text)
    elif live.unseen_reason is not None:
        yield Concern("MEMBERS_UNSEEN", f"Whether there are members is not known ({live.unseen_reason}).")
    if live.silent:
        text = "what stands before the change is what the strategy gives."
        yield Concern("SILENT_CLIENTS", f"No word from {listed(live.silent)} on the queues there: {text}")
    if own_error is not None:
        yield Concern("OWN_STRATEGY_UNKNOWN", f"What the members share by can't be computed: {own_error}")
    elif live.members and not live.is_popping and not live.strategies:
        text = "No member says by which strategy it shares: RocketMQ's default, averagely, is taken."
        yield Concern("STRATEGY_UNTOLD", text)


def _group(live: LiveGroup, scene: Scene, outcome: Outcome, looks: Looks | None) -> Iterator[Concern]:
    """Find what is wrong with the group already."""
    for broker_name, view in sorted(live.views.items()):
        topics = {mq.topic for mq in scene.queues if mq.broker_name == broker_name}
        unseen = sorted(
            client_id for client_id in set(scene.client_ids) - set(view) if _connects(live, client_id, topics)
        )
        if unseen:
            text = f"Broker {broker_name} does not name {listed(unseen)}: who asks it shares among the others."
            yield Concern("VIEWS_DIFFER", text)
    if len(live.strategies) > 1:
        text = "together they give queues to several clients, or to none."
        yield Concern("STRATEGIES_DIFFER", f"Members share by {', '.join(sorted(live.strategies))}: {text}")
    if looks is not None and looks.as_told is False:
        text = "it shares by another strategy, sees other members, or has just changed."
        like = f" It looks like {', '.join(looks.looks_like)}." if looks.looks_like else ""
        yield Concern(
            "NOT_AS_COMPUTED",
            f"Other queues than the group's strategy gives at {listed(looks.differing)}: {text}{like}",
        )
    for topic in scene.topics:
        strangers = scene.strangers.get(topic, frozenset())
        lacking = sorted(
            client_id
            for client_id, member in live.members.items()
            if not member.may_want(topic) and client_id not in strangers
        )
        if lacking and not topic.startswith(RETRY_PREFIX):
            text = f"Not subscribed to {topic}, so that their share of it is nobody's: {listed(lacking)}."
            yield Concern("NOT_SUBSCRIBED", text)
    yield from _retries(live)
    if live.is_popping and outcome.strategy != "pop-share":
        text = "The members pop: brokers share the queues among them, whatever strategy they name."
        yield Concern("POPPING", text)


def _connects(live: LiveGroup, client_id: str, topics: Collection[str]) -> bool:
    """Tell whether a client connects to a broker of these topics: it does for those that it subscribes to."""
    member = live.members.get(client_id)
    return any((member is None or member.may_want(topic)) and not topic.startswith(RETRY_PREFIX) for topic in topics)


def _retries(live: LiveGroup) -> Iterator[Concern]:
    if len({member.is_orderly for member in live.members.values()} - {None}) > 1:
        text = (
            "Some members consume in order and some do not: while a lock is held, brokers from 5.1.1 put retries that"
        )
        yield Concern("ORDERLY_MIXED", f"{text} clients send among the dead letters.")
    lacking = [name for name, config in live.configs.items() if config is not None and config.retry_queue_count <= 0]
    if lacking:
        text = f"The group has no retry queues at {listed(lacking)}: what fails there is acknowledged and lost."
        yield Concern("NO_RETRY_QUEUES", text)


def _cost(live: LiveGroup, scene: Scene, changes: Changes, outcome: Outcome) -> Iterator[Concern]:
    """Find what the change costs."""
    known = [move.duplicate_risk for move in outcome.moved if move.duplicate_risk is not None]
    unknown_count = len(outcome.moved) - len(known)
    if sum(known):
        text = f"Up to {counted(sum(known), 'message')} of the queues that move could be consumed twice."
        yield Concern("CONSUMED_TWICE", text)
    if unknown_count:
        text = f"How much of {counted(unknown_count, 'moving queue')} could be consumed twice is not known."
        yield Concern("CONSUMED_TWICE_UNKNOWN", text)
    if live.consume_from_where in (None, "CONSUME_FROM_LAST_OFFSET") and not live.is_popping:
        yield from _starts(live, scene, outcome)
    if any(member.is_orderly for member in live.members.values()):
        yield from _orderly(changes, outcome)
    rows = [live.progress[mq] for mq in outcome.removed if mq in live.progress]
    unread = sum(row.lag for row in rows if row.lag)
    is_known = all(row.lag is not None for row in rows)
    if unread or not is_known:
        text = (
            f"{'' if is_known else 'At least '}{counted(unread, 'message')} in the queues that go are not consumed yet."
        )
        yield Concern("UNREAD_IN_REMOVED_QUEUES", text)


def _starts(live: LiveGroup, scene: Scene, outcome: Outcome) -> Iterator[Concern]:
    """Find queues that their new owners would begin at the end (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET).

    A broker answers 0 instead of "none" for a queue whose first message it still has in memory
    (ConsumerManageProcessor.queryConsumerOffset); whether it does can't be known from outside.
    """
    unless = "unless its broker still has the first message in memory"
    untold = "" if live.consume_from_where is not None else ", if the clients start there (no two brokers agree)"
    fresh = [mq for mq in outcome.added if not mq.topic.startswith(RETRY_PREFIX)]
    if fresh:
        text = f"what comes before the group takes it, in up to {_NEW_QUEUE_UNSEEN_S} s, is skipped, {unless}."
        hint = "Storing offset 0 for new queues first avoids that."
        start = f"starts at its end{untold}"
        yield Concern("NEW_QUEUES_START_LAST", f"{counted(len(fresh), 'new queue')}: each {start}: {text} {hint}")
    moved = {move.mq for move in outcome.moved}
    skipped = [mq for mq in _never_committed(live, scene) if mq in moved]
    if skipped:
        text = f"who gets it starts at its end{untold}, and skips what is in it, {unless}."
        yield Concern("MOVED_QUEUES_START_LAST", f"No offset is stored of {listed(skipped)}: {text}")


def _never_committed(live: LiveGroup, scene: Scene) -> list[MessageQueue]:
    return [
        mq
        for mq in scene.queues
        if mq in live.progress
        and live.progress[mq].reasons.get("consumerOffset") is Unknown.NEVER_COMMITTED
        and live.progress[mq].max_offset != 0
        and not mq.topic.startswith(RETRY_PREFIX)
    ]


def _orderly(changes: Changes, outcome: Outcome) -> Iterator[Concern]:
    had = [move for move in outcome.moved if move.before]
    left = [move for move in had if not set(move.before) & set(outcome.after)]
    if left and changes.remove_clients:
        text = f"who is shut down gives its locks back, who is killed keeps them for {_LOCK_LIVES_S} s: nobody consumes"
        queues = counted(len(left), "orderly queue")
        yield Concern("ORDERLY_QUEUES_STALL", f"{queues} of clients that go: {text} them meanwhile.")
    staying = len(had) - len(left)
    if staying:
        text = "each waits until its old owner is through with what it consumes, and is tried again every 20 s."
        queues = counted(staying, "orderly queue")
        yield Concern("ORDERLY_QUEUES_MOVE", f"{queues} would change between clients: {text}")


def _advice(outcome: Outcome, most_moved_count: int | None) -> Iterator[Concern]:
    if most_moved_count is not None and most_moved_count != len(outcome.moved):
        text = f"{most_moved_count} would move if it sorted first. Name it (--add-clients ID) to know."
        yield Concern("NEW_IDS_UNKNOWN", f"What comes without a name is taken to sort last: {text}")
    if outcome.strategy == "consistent-hash":
        text = "Consistent hashing shares unevenly and is hard to trace: an averaging strategy is plainer."
        yield Concern("HARD_TO_TRACE", text)


def find_weight_concerns(scene: Scene, weights: Mapping[MessageQueue, float]) -> Iterator[Concern]:
    """Find queues whose work is not known to a strategy that shares by it."""
    unknown = [mq for mq in scene.queues if mq not in weights]
    if not weights:
        yield Concern("WEIGHTS_UNKNOWN", "No queue's work is known: lag-weighted takes all for equal.")
    elif unknown:
        text = f"The work in {listed(unknown)} is not known: lag-weighted takes it for none."
        yield Concern("WEIGHTS_UNKNOWN", text)
