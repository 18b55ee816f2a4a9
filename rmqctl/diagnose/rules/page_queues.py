"""The queues of a group on a page: their holders and their lag. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import sort_client_ids
from rmqctl.rules.member_settings import both_ways
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted, listed
from rmqctl.whatif.group_snapshot import GroupSnapshot, LiveGroup

from .shares import compute_shares, may_lack_owner

_NAMED = 10  # queues in a sentence
_MOST_ID_LETTERS = 40


class Room(Struct, frozen=True):
    """Limits for one group on a page: cells of tables of queues, topics, bars per topic."""

    cell_count: int
    topic_count: int
    queue_count: int


class MatrixRow(Struct, frozen=True):
    """One member: a mark for each queue (HELD, OTHER, DUE, UNKNOWN or nothing), or the ids of its queues by broker.

    `note` says why the member's queues are unknown. OTHER: held, but assigned to another member by the strategy.
    DUE: the reverse.
    """

    client_id: str
    note: str
    cells: tuple[str, ...]


class TopicMatrix(Struct, frozen=True):
    """One topic's queues and their holders.

    `brokers` are names with their numbers of queues. With `ids` (of queues), a row has a cell per queue, else one per
    broker. `counts` are the numbers of members that hold each queue, or of a broker's queues without exactly one
    holder; each with WRONG, UNKNOWN or nothing. `is_shared`: rows distinguish OTHER and DUE from HELD.
    """

    topic: str
    sentences: tuple[str, ...]
    brokers: tuple[tuple[str, int], ...] = ()
    rows: tuple[MatrixRow, ...] = ()
    ids: tuple[int, ...] = ()
    counts: tuple[tuple[str, str], ...] = ()
    is_shared: bool = False


class QueueAssignment(Struct, frozen=True):
    """All topics of a group, faulty ones first, or sentences in place of them."""

    sentences: tuple[str, ...]
    topics: tuple[TopicMatrix, ...] = ()


class QueueLag(Struct, frozen=True):
    """One queue's bar. `lag`: None if unknown, with a `reason`. `share` is relative to the topic's longest bar.

    `holder` names the members, or the reason why they are unknown.
    """

    mq: MessageQueue
    lag: int | None
    share: float
    reason: str
    time_lag: str
    holder: str


class TopicLag(Struct, frozen=True):
    """One topic's bars, the longest first, and a sentence on queues that are not shown."""

    topic: str
    sentence: str
    bars: tuple[QueueLag, ...]
    more: str


def make_assignment(facts: GroupFacts, unknown_reason: str | None, room: Room) -> QueueAssignment:
    """Return the holders of queues as members report them; `unknown_reason`: why members are unknown."""
    if facts.is_broadcasting:
        return QueueAssignment(
            ("A broker or a member reports broadcasting: each member that broadcasts holds every queue.",)
        )
    popping = facts.popping
    if popping and not facts.sharers:
        return QueueAssignment(("Members pop: brokers distribute the messages of each queue among them.",))
    if not facts.is_online or facts.snapshot is None or facts.snapshot.live is None:
        said = f"Unknown: {unknown_reason}." if unknown_reason else "No broker sees a member of the group."
        return QueueAssignment((said,))
    table = _Holders(facts, facts.snapshot, facts.snapshot.live)
    topics = sorted(table.queues, key=lambda topic: (not table.is_wrong(topic), topic.startswith(RETRY_PREFIX), topic))
    shown, budget = [], room.cell_count
    for topic in topics[: room.topic_count]:
        matrix = table.matrix(topic, budget)
        budget -= sum(len(row.cells) for row in matrix.rows)
        shown.append(matrix)
    more = topics[room.topic_count :]
    wrong_count = sum(map(table.is_wrong, more))
    said = f"{counted(len(more), 'more topic')} not shown; {wrong_count} with queues held by no member or by several."
    others = facts.broadcasting
    sentences = [said] * bool(more)
    sentences += [f"Not shown: queues that members pop ({listed(sorted(popping))})."] * bool(popping)
    sentences += [f"Not shown: members that broadcast ({listed(sorted(others))})."] * bool(others)
    return QueueAssignment(tuple(sentences), tuple(shown))


class _Holders:
    """The holders of the queues of a group that shares them."""

    def __init__(self, facts: GroupFacts, snapshot: GroupSnapshot, live: LiveGroup) -> None:
        self._facts, self._live = facts, live
        reporting, members = facts.holders(), live.members
        seen = {member.client_id for member in facts.members} | members.keys() | set(live.silent)
        # Members that only pop, or that broadcast, hold no queue for themselves.
        seen -= (facts.popping - facts.sharers) | facts.broadcasting
        self._client_ids = sort_client_ids(seen)
        self._held: dict[str, frozenset[MessageQueue]] = {
            name: members[name].pulled for name in members if name in reporting & seen
        }
        self._is_whole = self._held.keys() == seen and not live.silent_brokers
        self._counts = Counter(mq for held in self._held.values() for mq in held)
        # A broker that did not answer may list members that no other broker lists.
        computed = None if live.silent_brokers else compute_shares(facts)
        self._strategy = "" if computed is None else computed.strategy
        self._computed = set() if computed is None else set(computed.snapshot.queues)
        self._due: dict[str, frozenset[MessageQueue]] = {
            name: frozenset() if computed is None or name not in computed.members else computed.due(name)
            for name in self._held
        }
        self._moved = {
            mq
            for name, held in self._held.items()
            for mq in (held & self._computed) ^ self._due[name]
            if self._mark(name, mq) in ("OTHER", "DUE")
        }
        self._rows = {row.mq: row for row in facts.rows}
        self._mixed = both_ways(facts.running, self._counts)
        self.queues: dict[str, list[MessageQueue]] = {topic: [] for topic in snapshot.topics}
        for mq in sorted({*snapshot.queues, *self._rows, *self._counts}):
            if mq.topic in self.queues:
                self.queues[mq.topic].append(mq)

    def is_wrong(self, topic: str) -> bool:
        """Return whether a topic that members want has queues without exactly one holder."""
        return self._live.is_wanted(topic) and any(self._count(mq)[1] == "WRONG" for mq in self.queues[topic])

    def _count(self, mq: MessageQueue) -> tuple[str, str]:
        """Return the number of members that hold a queue, and its mark."""
        count = self._counts[mq]
        if not count and self._may_lack_holder(mq):
            return "-", ""
        if not count and not self._is_whole:
            return "?", "UNKNOWN"
        is_fine = (count == 1 and mq not in self._mixed) or (not count and may_lack_owner(mq, self._rows.get(mq)))
        return str(count), "" if is_fine else "WRONG"

    def _may_lack_holder(self, mq: MessageQueue) -> bool:
        """Return whether members that hold no queue for themselves consume a queue."""
        return self._facts.is_popped(mq) or bool(self._facts.broadcasting)

    def _faults(self, queues: Iterable[MessageQueue]) -> tuple[str, str]:
        """Return the number of queues without exactly one holder and of unknown ones, and the worst mark."""
        marks = Counter(self._count(mq)[1] for mq in queues)
        unknown = f", {marks['UNKNOWN']} unknown" if marks["UNKNOWN"] else ""
        return f"{marks['WRONG']}{unknown}", next((mark for mark in ("WRONG", "UNKNOWN") if marks[mark]), "")

    def matrix(self, topic: str, budget: int) -> TopicMatrix:
        """Return one topic's table with at most `budget` cells, or only sentences."""
        queues = self.queues[topic]
        brokers = tuple(Counter(mq.broker_name for mq in queues).items())
        sentences = tuple(self._sentences(topic))
        if not self._live.is_wanted(topic):
            return TopicMatrix(topic, sentences)
        if len(self._client_ids) * len(queues) <= budget:
            return TopicMatrix(
                topic,
                sentences,
                brokers,
                tuple(self._row(name, queues) for name in self._client_ids),
                tuple(mq.queue_id for mq in queues),
                tuple(map(self._count, queues)),
                is_shared=not self._moved.isdisjoint(queues),
            )
        if len(self._client_ids) * len(brokers) <= budget:
            said = "Too many queues for one column each: a cell shows a member's queues at one broker."
            rows = tuple(self._sums(name, topic, [name for name, _ in brokers]) for name in self._client_ids)
            counts = tuple(self._faults(mq for mq in queues if mq.broker_name == name) for name, _ in brokers)
            return TopicMatrix(topic, (*sentences, said), brokers, rows, counts=counts)
        return TopicMatrix(topic, (*sentences, "Too many members and queues for a table."))

    def _sentences(self, topic: str) -> Iterable[str]:
        queues = self.queues[topic]
        holders = sum(any(mq.topic == topic for mq in held) for held in self._held.values())
        who = counted(holders, "member") if holders else "no member"
        yield f"{counted(len(queues), 'queue')}, held by {who}{'' if self._is_whole else ' that answered'}."
        if not self._live.is_wanted(topic):
            yield "No member that answered subscribes to this topic."
            return
        none = [mq for mq in queues if not self._counts[mq] and not self._may_lack_holder(mq)]
        if none and not self._is_whole:
            yield f"Holder unknown: {listed(none, shown=_NAMED)}."
        elif none and holders:
            yield f"Held by no member: {listed(none, shown=_NAMED)}."
        if several := [mq for mq in queues if self._counts[mq] > 1]:
            yield f"Held by several members: {listed(several, shown=_NAMED)}."
        if mixed := [mq for mq in queues if mq in self._mixed]:
            yield f"Held by one member, and popped by another: {listed(mixed, shown=_NAMED)}."
        if moved := [mq for mq in queues if mq in self._moved]:
            yield f"Held by another member than {self._strategy} assigns: {listed(moved, shown=_NAMED)}."

    def _mark(self, client_id: str, mq: MessageQueue) -> str:
        held = self._held.get(client_id)
        if held is None:
            return "UNKNOWN"
        is_due = mq in self._due[client_id]
        if mq in held:
            return "HELD" if is_due or mq not in self._computed else "OTHER"
        return "DUE" if is_due and not mq.topic.startswith(RETRY_PREFIX) else ""

    def _row(self, client_id: str, queues: Sequence[MessageQueue]) -> MatrixRow:
        return MatrixRow(client_id, self._note(client_id), tuple(self._mark(client_id, mq) for mq in queues))

    def _sums(self, client_id: str, topic: str, brokers: Sequence[str]) -> MatrixRow:
        held = self._held.get(client_id)
        if held is None:
            return MatrixRow(client_id, self._note(client_id), ("UNKNOWN",) * len(brokers))
        by_broker: dict[str, list[int]] = {name: [] for name in brokers}
        for mq in sorted(held):
            if mq.topic == topic:
                by_broker[mq.broker_name].append(mq.queue_id)
        return MatrixRow(client_id, "", tuple(map(_ids, by_broker.values())))

    def _note(self, client_id: str) -> str:
        if client_id in self._held:
            return ""
        return "does not report its queues" if client_id in self._facts.running else "did not answer"


def _ids(queue_ids: Sequence[int]) -> str:
    """Return a count and ids in short form: 4 (0-2, 7)."""
    if not queue_ids:
        return ""
    runs: list[list[int]] = []
    for queue_id in queue_ids:
        if runs and runs[-1][-1] == queue_id - 1:
            runs[-1][1:] = [queue_id]
        else:
            runs.append([queue_id])
    text = ", ".join("-".join(map(str, run)) for run in runs)
    return f"{len(queue_ids)} ({text})" if len(text) <= _MOST_ID_LETTERS else str(len(queue_ids))


def make_lag(facts: GroupFacts, room: Room) -> tuple[list[TopicLag], str]:
    """Return the lag of each topic, the largest first, and a sentence on topics that are left out."""
    by_topic: dict[str, list[QueueProgress]] = {}
    for row in facts.rows:
        by_topic.setdefault(row.mq.topic, []).append(row)
    topics = sorted(by_topic, key=lambda topic: _by_lag(by_topic[topic]))
    more = topics[room.topic_count :]
    left = sum(row.lag or 0 for topic in more for row in by_topic[topic])
    said = f"{counted(len(more), 'more topic')} with {left:,} unread messages or more." if more else ""
    return [_topic_lag(topic, by_topic[topic], room.queue_count) for topic in topics[: room.topic_count]], said


def _by_lag(rows: Sequence[QueueProgress]) -> tuple[int, int, str]:
    """Sort topics by the largest lag, then by the number of queues with unknown lag."""
    return -sum(row.lag or 0 for row in rows), -sum(row.lag is None for row in rows), rows[0].mq.topic


def _topic_lag(topic: str, rows: Sequence[QueueProgress], most_bars: int) -> TopicLag:
    known = sorted((row for row in rows if row.lag), key=lambda row: (-(row.lag or 0), row.mq))
    unknown = [row for row in rows if row.lag is None]
    total = sum(row.lag or 0 for row in known)
    sentence = f"{total:,} unread in {counted(len(rows), 'queue')}."
    if unknown:
        sentence = f"At least {total:,} unread in {counted(len(rows), 'queue')}; unknown for {len(unknown)}."
    if len(unknown) == len(rows):
        sentence = f"Unknown for all {counted(len(rows), 'queue')}."
    longest = max((row.lag or 0 for row in known), default=0)
    bars = [_bar(row, longest) for row in (*known[:most_bars], *unknown[:most_bars])]
    rest = known[most_bars:]
    parts = [f"{len(rest)} more with {sum(row.lag or 0 for row in rest):,} unread"] * bool(rest)
    parts += [f"{len(unknown) - most_bars} more unknown"] * (len(unknown) > most_bars)
    idle_count = len(rows) - len(known) - len(unknown)
    parts += [f"{idle_count} without lag"] * bool(idle_count and bars)
    return TopicLag(topic, sentence, tuple(bars), f"Queues not shown: {', '.join(parts)}." if parts else "")


def _bar(row: QueueProgress, longest: int) -> QueueLag:
    return QueueLag(
        row.mq,
        row.lag,
        (row.lag or 0) / longest if longest else 0.0,
        _reason(row, "lag"),
        "unknown" if row.time_lag_ms is None else short_duration(row.time_lag_ms),
        ", ".join(row.client_ids) or _reason(row, "clientId") or "unknown",
    )


def _reason(row: QueueProgress, name: str) -> str:
    """Return in words why a value of a queue is unknown: never committed, broker unreachable."""
    return row.reasons.get(name, "").replace("_", " ").lower()
