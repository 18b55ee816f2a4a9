"""A recorded group: when its members came and went, its queues and rates, and how its queues moved.

A recording has samples at intervals. A change between two of them happened at some time between them: each run of the
simulation draws another one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, pairwise
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import NotRegisteredError, UnreachableError, UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import ClientSample, GroupSample
from rmqctl.rules.allocate import Assignment, find_strategy, sort_client_ids, sort_queues
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted
from rmqctl.whatif.group_snapshot import GroupSnapshot, share_all

from .changes import BrokerStart, BrokerStop, Change, CutBegin, CutEnd, Departure, MemberEnd, MemberStart

# A member that vanishes is listed for about two minutes more, and silent meanwhile; others may be slow to answer.
_LEAST_SILENT_MS = 60_000
# One that answers again is treated as slow if it was silent for less than this.
_LEAST_FROZEN_MS = 10_000
# A pause between two samples is a gap if it is this long, and this many times the usual one.
_LEAST_GAP_MS, _GAP_INTERVALS = 30_000, 5
# Errors of a broker that does not run; one that is frozen or cut off does not answer in time.
_DOWN_NAMES = (UnreachableError.name, NotRegisteredError.name)
# So many samples are compared with strategies.
_COMPARED_SAMPLES = 20
# Strategies that need neither options nor the previous owners.
_COMPARED = ("averagely", "circle", "consistent-hash")


class ChurnStep(Struct, frozen=True):
    """A change that happened after `after_ms`, until the time that it has itself."""

    after_ms: int
    change: Change


class ChurnTrace(Struct, frozen=True):
    """What a recording shows of a group; times are ms since its first sample.

    `client_ids` are the members at the beginning. `rates` are the arriving messages per second, without queues whose
    rate is unknown. `moves_ms` are the times at which a queue had another owner than in the sample before, once per
    queue: what happens between two samples is not seen. `clients` are those whose version is known. `partial_count` is
    the number of samples that do not have all members. `interval_ms` is the usual time between two samples, `gap_ms`
    the longest one. `strategy` is the one that fits most samples: `fit_count` of `owned_count` compared ones, which
    have one owner for each queue. A client that was frozen is cut off in `steps`, from all brokers.
    """

    group: str
    for_ms: int
    sample_count: int
    partial_count: int
    interval_ms: int
    gap_ms: int
    queues: tuple[MessageQueue, ...]
    client_ids: tuple[str, ...]
    steps: tuple[ChurnStep, ...]
    rates: Mapping[MessageQueue, float]
    clients: Mapping[str, ClientSample]
    moves_ms: tuple[int, ...]
    strategy: str
    fit_count: int
    owned_count: int

    def count(self, kind: type[Change]) -> int:
        """Return how many changes of a kind there are."""
        return sum(isinstance(step.change, kind) for step in self.steps)

    def until(self, for_ms: int) -> ChurnTrace:
        """Return what it shows of the time until `for_ms`."""
        if for_ms >= self.for_ms:
            return self
        return replace(
            self,
            for_ms=for_ms,
            steps=tuple(step for step in self.steps if step.after_ms < for_ms),
            moves_ms=tuple(at_ms for at_ms in self.moves_ms if at_ms <= for_ms),
        )

    def changes(self, seed: int) -> list[Change]:
        """Return the changes, each at a random time between the samples that show it."""
        draw = random.Random(seed).uniform  # noqa: S311 - a simulation must be repeatable
        changes = [replace(step.change, at_ms=draw(step.after_ms, step.change.at_ms)) for step in self.steps]
        return sorted(changes, key=lambda change: change.at_ms)

    def words(self) -> str:
        """Return a clause that says what the recording shows."""
        starts, ends = counted(self.count(MemberStart), "start"), counted(self.count(MemberEnd), "end")
        changes = f"{starts} and {ends} of clients"
        if silence_count := self.count(CutBegin):
            changes = f"{starts}, {ends} and {counted(silence_count, 'silence')} of clients"
        if stop_count := self.count(BrokerStop):
            changes += f", {counted(stop_count, 'stop')} of brokers,"
        interval = f"{self.interval_ms / 1000:.1f}".removesuffix(".0")
        return f"{changes} as recorded every {interval}s, with at least {counted(len(self.moves_ms), 'queue move')}"

    def concerns(self, *, with_versions: bool) -> Iterator[str]:
        """Yield what the recording does not show; of versions only `with_versions`."""
        if self.partial_count:
            samples = counted(self.sample_count, "sample")
            yield f"{self.partial_count} of {samples} do not have all members: some starts and ends may be missing."
        if self.gap_ms >= max(_LEAST_GAP_MS, _GAP_INTERVALS * self.interval_ms):
            gap = short_duration(self.gap_ms)
            yield f"The recording has a gap of {gap}: what changed in it is simulated at any time of it."
        started = {step.change.client_id for step in self.steps if isinstance(step.change, MemberStart)}
        unknown = {*self.client_ids, *started} - self.clients.keys()
        if unknown and with_versions:
            simulated = "that of most others" if self.clients else "5.2"
            clients = counted(len(unknown), "client")
            yield f"The version of {clients} is unknown: {simulated} is simulated (--client-version)."
        if self.rates and len(self.rates) < len(self.queues):
            queues = counted(len(self.queues) - len(self.rates), "queue")
            yield f"The rate of {queues} is unknown: DUPLICATES is without their messages (--rate)."
        if self.fit_count < self.owned_count:
            fits = f"{self.fit_count} of {counted(self.owned_count, 'sample')}"
            yield f"The strategy {self.strategy} fits only {fits} (--strategy)."
        elif not self.owned_count:
            yield f"The recording does not show which strategy the clients use: {self.strategy} is simulated."


def read_trace(samples: Iterable[GroupSample], *, topics: Sequence[str] = (), departure: Departure) -> ChurnTrace:
    """Return what samples of one group show; members end like `departure`, those that were silent before vanish.

    `topics` selects topics; by default those that had an owner, all if no owner is known. Raises UsageError for too few
    samples, for a clock that went back, and for a group that pops.
    """
    given = list(samples)
    for before, after in pairwise(given):
        if after.at_ms < before.at_ms and after.monotonic_s > before.monotonic_s:
            back = short_duration(before.at_ms - after.at_ms)
            raise UsageError(
                f"The clock of the recording went back by {back} between two samples.",
                hint="Give only the samples before or after it; several files in the order of their times.",
            )
    ordered = sorted(given, key=lambda sample: sample.at_ms)
    # Who is there at the beginning must be known.
    seen = [*dropwhile(lambda sample: not _shows_all_members(sample), ordered)]
    if len(seen) < 2 or seen[-1].at_ms == seen[0].at_ms:
        raise UsageError("The recording has fewer than two samples with all members of the group.")
    queues = _consumed_queues(seen, topics)
    if not queues:
        raise UsageError("The recording has no queues of the group.", hint="Check --topic.")
    strategy, fit_count, owned_count = _fitting(seen, queues)
    brokers = tuple(sorted({mq.broker_name for mq in queues}))
    pauses_ms = [after.at_ms - before.at_ms for before, after in pairwise(seen)]
    return ChurnTrace(
        group=seen[0].group,
        for_ms=seen[-1].at_ms - seen[0].at_ms,
        sample_count=len(seen),
        interval_ms=round(median(pauses_ms)),
        gap_ms=max(pauses_ms),
        partial_count=len(seen) - sum(map(_shows_all_members, seen)),
        queues=queues,
        client_ids=tuple(sort_client_ids(seen[0].client_ids)),
        steps=(*_member_steps(seen, departure, brokers), *_broker_steps(seen, brokers)),
        rates=_rates(seen, queues),
        clients=_clients(seen),
        moves_ms=tuple(_moves_ms(seen, queues)),
        strategy=strategy,
        fit_count=fit_count,
        owned_count=owned_count,
    )


def _shows_all_members(sample: GroupSample) -> bool:
    """Return whether a member that is missing is gone: no broker failed to answer which members it has."""
    return sample.state is not GroupState.UNKNOWN and not any(each.what == "members" for each in sample.failures)


def _members_ms(sample: GroupSample, begin_ms: int) -> int:
    """Return when the members of a sample were read, since the first sample."""
    at_ms = sample.at_ms if sample.members_at_ms is None else sample.members_at_ms
    return max(0, at_ms - begin_ms)


def _consumed_queues(samples: Sequence[GroupSample], topics: Sequence[str]) -> tuple[MessageQueue, ...]:
    found = {mq: queue for sample in samples for mq, queue in sample.queues.items()}
    if any(queue.is_popped for queue in found.values()):
        raise UsageError("The group of the recording pops: its brokers allocate the queues.")
    if any(Unknown.BROADCASTING in queue.reasons.values() for queue in found.values()):
        raise UsageError("The group of the recording is broadcasting: every member reads all queues.")
    owned = {mq.topic for sample in samples for mq, queue in sample.queues.items() if queue.owners}
    wanted = set(topics) or owned or {mq.topic for mq in found}
    return tuple(sort_queues(mq for mq in found if mq.topic in wanted))


def _member_steps(
    samples: Sequence[GroupSample], departure: Departure, brokers: tuple[str, ...]
) -> Iterator[ChurnStep]:
    begin_ms = samples[0].at_ms
    # When each present member was seen last, and since when it has been silent.
    present_ms = dict.fromkeys(samples[0].client_ids, 0)
    silent_ms: dict[str, tuple[int, int]] = {}
    complete_ms = 0
    for sample in samples[1:]:
        at_ms = _members_ms(sample, begin_ms)
        for client_id in sort_client_ids(set(sample.client_ids) - present_ms.keys()):
            # Before, it was absent for certain only in a sample that has all members.
            yield ChurnStep(complete_ms, MemberStart(at_ms, client_id))
        if _shows_all_members(sample):
            for client_id in sort_client_ids(present_ms.keys() - set(sample.client_ids)):
                last_ms = present_ms.pop(client_id)
                after_ms, until_ms = silent_ms.pop(client_id, (last_ms, at_ms))
                if at_ms - until_ms >= _LEAST_SILENT_MS:
                    yield ChurnStep(after_ms, MemberEnd(until_ms, client_id, Departure.VANISH))
                else:
                    yield ChurnStep(last_ms, MemberEnd(at_ms, client_id, departure))
            complete_ms = at_ms
        for client_id in sample.client_ids:
            if client_id not in sample.silent_ids:
                after_ms, silence_ms = silent_ms.pop(client_id, (0, at_ms))
                last_ms = present_ms.get(client_id, 0)
                if last_ms - silence_ms >= _LEAST_FROZEN_MS:
                    yield ChurnStep(after_ms, CutBegin(silence_ms, client_id, brokers))
                    yield ChurnStep(last_ms, CutEnd(at_ms, client_id, brokers))
            elif client_id not in silent_ms and client_id in present_ms:
                silent_ms[client_id] = present_ms[client_id], at_ms
            present_ms[client_id] = at_ms


def _broker_steps(samples: Sequence[GroupSample], brokers: tuple[str, ...]) -> Iterator[ChurnStep]:
    begin_ms = samples[0].at_ms
    down: set[str] = set()
    for before, sample in pairwise(samples):
        after_ms, until_ms = before.at_ms - begin_ms, sample.at_ms - begin_ms
        failed = {
            failure.broker_name
            for failure in sample.failures
            if failure.what == "offsets" and failure.error.name in _DOWN_NAMES
        }
        now = {name for name in brokers if name in failed}
        yield from (ChurnStep(after_ms, BrokerStop(until_ms, name)) for name in sorted(now - down))
        yield from (ChurnStep(after_ms, BrokerStart(until_ms, name)) for name in sorted(down - now))
        down = now


def _rates(samples: Sequence[GroupSample], queues: Sequence[MessageQueue]) -> dict[MessageQueue, float]:
    rates = {}
    for mq in queues:
        ends = [
            (sample.at_ms, queue.max_offset)
            for sample in samples
            if (queue := sample.queues.get(mq)) is not None and queue.max_offset is not None
        ]
        if len(ends) > 1 and ends[-1][0] > ends[0][0]:
            rates[mq] = max(0, ends[-1][1] - ends[0][1]) * 1000 / (ends[-1][0] - ends[0][0])
    return rates


def _clients(samples: Sequence[GroupSample]) -> dict[str, ClientSample]:
    """Return what each client reported last; one that consumed nothing lately keeps its time per message."""
    clients: dict[str, ClientSample] = {}
    for sample in samples:
        for client_id, client in sample.clients.items():
            before = clients.get(client_id)
            if before is not None:
                client = replace(
                    client,
                    is_orderly=before.is_orderly if client.is_orderly is None else client.is_orderly,
                    consume_rt_ms=before.consume_rt_ms if client.consume_rt_ms is None else client.consume_rt_ms,
                )
            clients[client_id] = client
    return clients


def _owner(sample: GroupSample, mq: MessageQueue) -> str | None:
    """Return the only owner of a queue, None if it has none or several, or if members did not answer."""
    queue = sample.queues.get(mq)
    owners = [owner.client_id for owner in queue.owners if not owner.is_dropped] if queue is not None else []
    return owners[0] if len(owners) == 1 else None


def _moves_ms(samples: Sequence[GroupSample], queues: Sequence[MessageQueue]) -> Iterator[int]:
    begin_ms = samples[0].at_ms
    for mq in queues:
        owned = [(sample, owner) for sample in samples if (owner := _owner(sample, mq)) is not None]
        for (_, before), (sample, after) in pairwise(owned):
            if before != after:
                yield _members_ms(sample, begin_ms)


def _fitting(samples: Sequence[GroupSample], queues: Sequence[MessageQueue]) -> tuple[str, int, int]:
    """Return the strategy that gives the recorded owners most often, how often it does, and of how many samples.

    Samples with other clients than the one before can be from the middle of a rebalance: they count if all are so.
    """
    quiet = [after for before, after in pairwise(samples) if before.client_ids == after.client_ids]
    owned = []
    for sample in filter(lambda sample: sample.client_ids, quiet or samples):
        owners = {mq: owner for mq in queues if (owner := _owner(sample, mq)) is not None}
        if len(owners) == len(queues):
            # With protection, clients that do not count yet have no queues.
            counted_ids = tuple(sorted(set(owners.values())))
            owned.append(([GroupSnapshot(tuple(queues), ids) for ids in (sample.client_ids, counted_ids)], owners))
    owned = owned[:: len(owned) // _COMPARED_SAMPLES + 1]
    strategies = {name: find_strategy(name) for name in _COMPARED}
    counts = {
        name: sum(owners in (_owners(share_all(each, strategy)) for each in snapshots) for snapshots, owners in owned)
        for name, strategy in strategies.items()
    }
    best = max(_COMPARED, key=counts.__getitem__)
    return best, counts[best], len(owned)


def _owners(assignment: Assignment) -> dict[MessageQueue, str]:
    return {mq: client_id for client_id, share in assignment.items() for mq in share}
