"""Groups as recorded in snapshots, tried with other strategies and sizes by the rules of what-if."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Assignment, Options, sort_client_ids
from rmqctl.rules.allocate.strategies import canonical_name
from rmqctl.text.words import counted
from rmqctl.whatif.allocation import Trial, try_strategy
from rmqctl.whatif.changes import QueueChange, TrialChanges, apply_changes, parse_names_or_count, parse_queue_change
from rmqctl.whatif.group_snapshot import GroupSnapshot
from rmqctl.whatif.outcome import Spread, Work

if TYPE_CHECKING:
    import pyarrow as pa

# Strategies that need no options. Rooms end at a minus, the default of whatif allocate.
STRATEGIES = ("averagely", "circle", "consistent-hash", "machine-room-nearby", "sticky", "lag-weighted")
CHANGES = ("none", "+1 client", "-1 client")

# The allocation before a change: what clients held. It is passed like a plugin's strategy.
_AS_HELD = "as held"
# Rows per batch on the way to Spark.
_BATCH_COUNT = 2_000
_GRAMMAR = "Use '+1 client', -client:ID, '+1 broker', -broker:NAME, queues+4, queues=16 or none, or 'A and B'."
_COUNTED = re.compile(r"([+-])\s*(\d+)\s*(client|broker)s?", re.ASCII)
_NAMED = re.compile(r"([+-])\s*(client|broker):(\S+)")
_QUEUES = re.compile(r"queues\s*([+=-])\s*(\d+)", re.ASCII)


class TrialState(StrEnum):
    """The result of a row: tried, refused (impossible strategy or change), or skipped (group not known well enough)."""

    TRIED = "TRIED"
    REFUSED = "REFUSED"
    SKIPPED = "SKIPPED"


class SkipReason(StrEnum):
    """Why a group was skipped."""

    NO_OWNERS = "NO_OWNERS"
    OWNERS_UNKNOWN = "OWNERS_UNKNOWN"
    SEVERAL_OWNERS = "SEVERAL_OWNERS"


class Refusal(StrEnum):
    """What is impossible: the strategy with these queues, clients and options, or the change to this group."""

    STRATEGY = "STRATEGY"
    CHANGE = "CHANGE"


class NamedChange(Struct, frozen=True):
    """A change and its name; the same change always has the same name."""

    name: str
    changes: TrialChanges


class QueueRow(Struct, frozen=True):
    """A queue of a group in a snapshot. `client_id` is set only when the queue has one known owner."""

    mq: MessageQueue
    lag: int | None
    client_id: str | None
    is_held: bool | None


class HeldGroup(Struct, frozen=True):
    """A group whose queue owners are all known; `owners` omits queues without an owner. A lag may be None."""

    snapshot: GroupSnapshot
    owners: Mapping[MessageQueue, str]
    lag: Mapping[MessageQueue, int | None]


class SkippedGroup(Struct, frozen=True):
    """A group that cannot be tried, and the reason."""

    reason: SkipReason
    text: str


def strategy_name(word: str) -> str:
    """Return a strategy's canonical name; a name with a strategy within rooms stays unchanged."""
    return word if word.startswith("MACHINE_ROOM_NEARBY-") else canonical_name(word)


def parse_change(text: str) -> NamedChange:
    """Parse a change: parts joined by " and ", or none. Raises UsageError.

    A part is +N clients, -N clients (the last by id), +client:ID, -client:ID, +N brokers, +broker:NAME, -broker:NAME,
    or queues+N, queues-N, queues=N for each broker.
    """
    parts = [part.strip() for part in re.split(r"\sand\s", text.strip())]
    if parts == ["none"]:
        return NamedChange("none", TrialChanges())
    changes, names = TrialChanges(), []
    for part in parts:
        changes, name = _with_part(changes, part, text)
        names.append(name)
    return NamedChange(" and ".join(names), changes)


def _with_part(changes: TrialChanges, part: str, text: str) -> tuple[TrialChanges, str]:
    found = _QUEUES.fullmatch(part)
    if found is not None:
        if changes.queues is not None:
            raise UsageError(f"The change {text!r} changes the number of queues twice.")
        queues: QueueChange = parse_queue_change(found[1] + found[2])
        return replace(changes, queues=queues), f"queues{queues.sign}{queues.count}"
    found = _NAMED.fullmatch(part)
    if found is not None:
        sign, kind, name = found.groups()
        return _with_item(changes, sign, kind, name), f"{sign}{kind}:{name}"
    found = _COUNTED.fullmatch(part)
    if found is None:
        raise UsageError(f"Invalid change {text!r}.", hint=_GRAMMAR)
    sign, digits, kind = found.groups()
    parse_names_or_count("--change", [digits])  # rejects 0 and numbers that are too large
    if sign == "-" and kind == "broker":
        raise UsageError(
            f"The change {text!r} does not name the broker to remove.", hint="Use -broker:NAME, e.g. -broker:broker-b."
        )
    return _with_item(changes, sign, kind, int(digits)), f"{sign}{counted(int(digits), kind)}"


def _with_item(changes: TrialChanges, sign: str, kind: str, item: str | int) -> TrialChanges:
    field = f"{'add' if sign == '+' else 'remove'}_{kind}s"
    return replace(changes, **{field: (*getattr(changes, field), item)})


def read_group(rows: Iterable[QueueRow]) -> HeldGroup | SkippedGroup:
    """Build a group from its rows of one snapshot; a duplicate row of a queue counts once.

    Topics whose queues all have no owner are left out. A snapshot names clients only by the queues that they hold, so
    clients without queues are missing.
    """
    by_topic: dict[str, dict[MessageQueue, QueueRow]] = {}
    for row in rows:
        by_topic.setdefault(row.mq.topic, {})[row.mq] = row
    shared = [
        row
        for queues in by_topic.values()
        if any(row.is_held is not False for row in queues.values())
        for row in queues.values()
    ]
    if not shared:
        return SkippedGroup(SkipReason.NO_OWNERS, "No client held any of its queues.")
    unknown = sum(row.client_id is None and row.is_held is None for row in shared)
    if unknown:
        text = f"It is unknown who held {unknown} of its {counted(len(shared), 'queue')}."
        return SkippedGroup(SkipReason.OWNERS_UNKNOWN, text)
    several = sum(row.client_id is None and row.is_held is True for row in shared)
    if several:
        queues = counted(len(shared), "queue")
        text = f"Several clients held {several} of its {queues} at the same time, and snapshots do not name them."
        return SkippedGroup(SkipReason.SEVERAL_OWNERS, text)
    owners = {row.mq: row.client_id for row in shared if row.client_id is not None}
    snapshot = GroupSnapshot(tuple(row.mq for row in shared), tuple(sort_client_ids(set(owners.values()))))
    return HeldGroup(snapshot, owners, {row.mq: row.lag for row in shared})


def try_group(
    group: HeldGroup, strategies: Sequence[str], changes: Sequence[NamedChange]
) -> Iterator[Mapping[str, Any]]:
    """Yield a row of the table alloc_whatif for each change and strategy, without the columns that name the group.

    Moves are counted against the queues that clients held. Added queues have a lag of 0.
    """
    custom = {_AS_HELD: lambda queues, client_ids, _options: _held(group, queues, client_ids)}
    for change in changes:
        work = Work(lag=group.lag)
        try:
            new = set(apply_changes(group.snapshot, change.changes).queues) - set(group.snapshot.queues)
            work = replace(work, lag={**group.lag, **dict.fromkeys(new, 0)})
        except (NotFoundError, UsageError):
            pass  # the row of each strategy reports it
        for strategy in strategies:
            row = {"strategy": strategy, "change": change.name, "topics": list(group.snapshot.topics)}
            try:
                trial = try_strategy(
                    group.snapshot, change.changes, strategy, Options(), current=_AS_HELD, work=work, custom=custom
                )
            except (AllocationError, NotFoundError, UsageError) as error:
                code = Refusal.STRATEGY if isinstance(error, AllocationError) else Refusal.CHANGE
                yield row | {"state": TrialState.REFUSED.value, "reason_code": code.value, "reason": _sentence(error)}
            else:
                yield row | _tried(trial, work)


def _held(group: HeldGroup, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> Assignment:
    shares: Assignment = {client_id: [] for client_id in client_ids}
    for queue in queues:
        owner = group.owners.get(queue)
        if owner is not None:
            shares[owner].append(queue)
    return shares


def _sentence(error: AllocationError | NotFoundError | UsageError) -> str:
    """Return an error's sentence, without the option of whatif allocate that it may start with."""
    if isinstance(error, AllocationError):
        return str(error)
    option, _, rest = error.sentence.partition(": ")
    return rest[:1].upper() + rest[1:] if rest and option.startswith("--") else error.sentence


def _tried(trial: Trial, work: Work) -> dict[str, Any]:
    outcome = trial.outcome
    before, after = outcome.balance_before, outcome.balance
    # One sentence for each code: with many clients there can be hundreds.
    concerns = {concern.code: concern.text for concern in reversed(trial.concerns)}
    codes = list(dict.fromkeys(concern.code for concern in trial.concerns))
    lag = [share.lag for share in outcome.clients]
    return {
        "state": TrialState.TRIED.value,
        "queue_count": len(trial.snapshot.queues),
        "client_count": len(outcome.after),
        "least_queues": int(after.queues.least),
        "most_queues": int(after.queues.most),
        "queue_deviation": after.queues.deviation,
        "queue_imbalance": _queue_imbalance(after.queues, outcome.after, (s.queue_count for s in outcome.clients)),
        "lag_messages": None if after.lag is None else sum(each for each in lag if each is not None),
        "least_lag": None if after.lag is None else int(after.lag.least),
        "most_lag": None if after.lag is None else int(after.lag.most),
        "lag_deviation": None if after.lag is None else after.lag.deviation,
        "lag_imbalance": _lag_imbalance(after.lag, outcome.after, work),
        "queue_imbalance_before": _queue_imbalance(
            before.queues, outcome.before, (share.queue_count_before for share in outcome.clients)
        ),
        "lag_imbalance_before": _lag_imbalance(before.lag, outcome.before, work),
        "moved_count": len(outcome.moved),
        "most_moved_count": trial.most_moved_count,
        "added_count": len(outcome.added),
        "removed_count": len(outcome.removed),
        "idle_client_count": len(outcome.idle),
        "unowned_count": len(outcome.unowned),
        "shared_count": len(outcome.shared),
        "concern_codes": codes,
        "concerns": " ".join(concerns[code] for code in codes),
    }


def _queue_imbalance(spread: Spread, shares: Assignment, counts: Iterable[int]) -> float | None:
    """Return the most queues per client divided by the smallest possible maximum: 1 is as even as possible."""
    least = math.ceil(sum(counts) / len(shares)) if shares else 0
    return spread.most / least if least else None


def _lag_imbalance(spread: Spread | None, shares: Assignment, work: Work) -> float | None:
    """Return the most lag per client divided by the smallest possible maximum: the mean, or the largest queue's lag.

    Returns None when the lag of a queue is unknown, and when all lag is 0.
    """
    if spread is None:
        return None
    lag = [work.lag.get(queue) or 0 for share in shares.values() for queue in share]
    least = max(sum(lag) / len(shares), max(lag, default=0))
    return spread.most / least if least else None


def try_batches(
    batches: Iterable[pa.RecordBatch], columns: Mapping[str, str], strategies: Sequence[str],
    changes: Sequence[NamedChange],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield rows with the given columns and types for groups, one per input row; runs in Spark's tasks (mapInArrow).

    An input row has the columns that name the group, which are kept, and `queues`: topic, broker_name, queue_id,
    lag_messages, client_id, is_held. A skipped group has one row, without a strategy.
    """
    import pyarrow as pa

    types = {
        "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(),
        "array<string>": pa.list_(pa.string()),
    }  # fmt: skip
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    rows: list[Mapping[str, Any]] = []
    for batch in batches:
        for index in range(batch.num_rows):
            (item,) = batch.slice(index, 1).to_pylist()
            rows += _rows_of(item, strategies, changes)
            if len(rows) >= _BATCH_COUNT:
                yield pa.RecordBatch.from_pylist(rows, schema=schema)
                rows = []
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _rows_of(
    item: dict[str, Any], strategies: Sequence[str], changes: Sequence[NamedChange]
) -> Iterator[Mapping[str, Any]]:
    queues = item.pop("queues")
    group = read_group(
        QueueRow(
            MessageQueue(queue["topic"], queue["broker_name"], queue["queue_id"]),
            queue["lag_messages"], queue["client_id"], queue["is_held"],
        )
        for queue in queues
    )  # fmt: skip
    if isinstance(group, SkippedGroup):
        topics = sorted({queue["topic"] for queue in queues})
        count = len({(queue["topic"], queue["broker_name"], queue["queue_id"]) for queue in queues})
        skipped = {"state": TrialState.SKIPPED.value, "reason_code": group.reason.value, "reason": group.text}
        yield item | skipped | {"topics": topics, "queue_count": count}
        return
    for row in try_group(group, strategies, changes):
        yield {**item, **row}
