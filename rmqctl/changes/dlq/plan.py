"""Plans a replay: which dead letters would be sent where, which would not be sent, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from enum import StrEnum
from itertools import groupby

from msgspec import Struct, field

from rmqctl.admin.results import ask_all
from rmqctl.changes.dlq.rules.replay import ReplayTarget, position_text
from rmqctl.changes.dlq.rules.replay_chains import ReplayChains
from rmqctl.client.core import Client
from rmqctl.errors import PluginError, RefusedError, RmqctlError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.rules.dead_letters import origin_topic
from rmqctl.text.words import counted, listed

from .ledger import Ledger, LedgerRow
from .source import DeadLetter, LetterSource
from .targets import TargetQueues

_SAMPLE_COUNT = 5


class OmissionReason(StrEnum):
    """Why a dead letter is not sent."""

    DONE = "DONE"  # it was sent before, or dropped
    IN_DOUBT = "IN_DOUBT"  # it may have been sent before: its copy is looked for first
    DIED_AGAIN = "DIED_AGAIN"  # it was replayed, by any ledger, and died again: a later dead letter is sent
    TWICE = "TWICE"  # another dead letter of the same delivery is sent, or was
    NO_ORIGIN = "NO_ORIGIN"  # it does not contain the topic that it was first sent to


# The words for each, after a number.
_NOT_SENT_WORDS: Mapping[OmissionReason, str] = {
    OmissionReason.DONE: "replayed before",
    OmissionReason.IN_DOUBT: "possibly sent by an interrupted run: rmqctl looks for them first",
    OmissionReason.DIED_AGAIN: "died again after a replay: the last dead letter of each message counts instead",
    OmissionReason.TWICE: "duplicates of the same delivery",
    OmissionReason.NO_ORIGIN: "without the topic that they were first sent to",
}


class LetterTally(Struct):
    """Number, total size in bytes and time range of dead letters."""

    count: int = 0
    size_bytes: int = 0
    earliest_at_ms: int | None = None
    latest_at_ms: int | None = None

    def add(self, letter: DeadLetter) -> None:
        """Count one dead letter."""
        at_ms = letter.stored_at_ms
        self.count += 1
        self.size_bytes += len(letter.body)
        self.earliest_at_ms = at_ms if self.earliest_at_ms is None else min(at_ms, self.earliest_at_ms)
        self.latest_at_ms = at_ms if self.latest_at_ms is None else max(at_ms, self.latest_at_ms)


class ReplayPlan(Struct):
    """What would be sent, by origin topic and target topic, and the first five; what would not be sent, by reason.

    `left_count` are those beyond the requested maximum; `again_count` are those to be sent that were replayed before,
    and failed again. `unresolved` are the failures that no run resolves: dead letters that cannot be sent, and places
    where later dead letters could not be read. `failures` contains them. `obstacle` is why no topic accepts messages.
    """

    target: ReplayTarget
    chains: ReplayChains = field(default_factory=ReplayChains)
    to_send: dict[tuple[str | None, str], LetterTally] = field(default_factory=dict)
    sample: list[DeadLetter] = field(default_factory=list)
    not_sent: dict[OmissionReason, int] = field(default_factory=dict)
    left_count: int = 0
    again_count: int = 0
    unresolved: list[Failure] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    obstacle: RmqctlError | None = None

    @property
    def count(self) -> int:
        """Number of dead letters that would be sent."""
        return sum(tally.count for tally in self.to_send.values())

    @property
    def most_count(self) -> int:
        """Largest number that would be sent: with all that are in doubt, if they turn out not to be on the target."""
        return self.count + self.not_sent.get(OmissionReason.IN_DOUBT, 0)

    def unread_brokers(self, more: Iterable[Failure] = ()) -> set[str]:
        """Return the brokers whose dead letters could not all be read; `more` are failures of a later reading."""
        failures = (each for each in (*self.failures, *more) if each.attempt is Attempt.READ)
        return {each.broker_name for each in failures if each.broker_name is not None}

    @property
    def unsendable_count(self) -> int:
        """Number of dead letters that cannot be sent to this target."""
        return self.not_sent.get(OmissionReason.NO_ORIGIN, 0)

    def notes(self, most: int | None) -> list[str]:
        """Return what to say of what is not sent, beyond a maximum too, and of what was sent before."""
        said = []
        if self.again_count:
            said.append(f"Replayed before, and failed again: {self.again_count} of {self.count}.")
        said += (
            f"Not sent: {counted(count, 'dead letter')}, {_NOT_SENT_WORDS[left]}."
            for left, count in self.not_sent.items()
        )
        if self.left_count:
            said.append(f"Not sent: {counted(self.left_count, 'dead letter')}, beyond --max {most}.")
        return said


class LetterSelection:
    """Decides for each dead letter, in order, whether it is sent. The same delivery is chosen only once."""

    def __init__(
        self, ledger: Ledger | None, target: ReplayTarget, chains: ReplayChains, *, is_plan: bool = False
    ) -> None:
        self._ledger = ledger
        self._chains = chains
        self._target = target
        self._is_resumed = ledger is not None and ledger.has_letters()
        in_doubt = [] if ledger is None else ledger.in_doubt()
        self._in_doubt = {row[:4] for row in in_doubt}
        # Deliveries that were chosen and are not in the ledger yet. A plan, which writes no ledger, keeps only their
        # hashes: a million take 60 MB. The probability that two of a million are equal is below 1 in 10^7.
        self._passed: set[tuple[str, str] | int] = set()
        self._is_plan = is_plan
        deliveries = [(row.message_id, row.earlier) for row in in_doubt]
        self._passed.update(map(hash, deliveries) if is_plan else deliveries)

    def choose(self, letters: Sequence[DeadLetter]) -> list[tuple[DeadLetter, OmissionReason | None]]:
        """Return each with the reason why it is not sent; None for those to be sent."""
        done, delivered = self._noted(letters)
        chosen: list[tuple[DeadLetter, OmissionReason | None]] = []
        for letter in letters:
            delivery = (letter.message_id, letter.mark)
            key = hash(delivery) if self._is_plan else delivery
            left = None
            if done and _place(letter) in done:
                left = OmissionReason.DONE
            elif self._chains.has_replaced and self._chains.is_replaced(letter.message_id, letter.position):
                left = OmissionReason.DIED_AGAIN
            elif self._in_doubt and _place(letter) in self._in_doubt:
                left = OmissionReason.IN_DOUBT
            elif self._target.topic_of(letter.properties) is None:
                left = OmissionReason.NO_ORIGIN
            elif key in self._passed or delivery in delivered or self._chains.is_settled(*delivery):
                left = OmissionReason.TWICE
            else:
                self._passed.add(key)
            chosen.append((letter, left))
        return chosen

    def forget(self, rows: Iterable[LedgerRow]) -> None:
        """Remove from memory what the ledger has by now."""
        self._passed.difference_update((row.message_id, row.earlier) for row in rows)

    def _noted(self, letters: Sequence[DeadLetter]) -> tuple[set[tuple[str, int, int, str]], set[tuple[str, str]]]:
        """Return which places and deliveries of these the ledger has."""
        done: set[tuple[str, int, int, str]] = set()
        if self._ledger is None or (self._is_plan and not self._is_resumed):
            return done, set()
        if self._is_resumed:
            ordered = sorted(letters, key=lambda each: (each.broker_name, each.queue_id, each.queue_offset))
            for (name, queue_id), part in groupby(ordered, key=lambda each: (each.broker_name, each.queue_id)):
                offsets = [each.queue_offset for each in part]
                found = self._ledger.done_between(name, queue_id, offsets[0], offsets[-1])
                done |= {(name, queue_id, *key) for key in found}
        return done, self._ledger.deliveries([each.message_id for each in letters])


def _place(letter: DeadLetter) -> tuple[str, int, int, str]:
    return letter.broker_name, letter.queue_id, letter.queue_offset, letter.message_id


def is_replaced(row: LedgerRow, chains: ReplayChains) -> bool:
    """Return whether the dead letter of a row has a later one, which proves that it was sent."""
    return chains.has_later(row.message_id, position_text(row.broker_name, row.queue_id, row.queue_offset))


def not_transformed(letter: DeadLetter, error: PluginError) -> Failure:
    """Return the failure of a transformation, which leaves a dead letter unsent."""
    what = f"offset {letter.queue_offset} of queue {letter.queue_id} ({letter.message_id})"
    return Failure(letter.broker_name, what, error, Attempt.WRITE)


async def plan_replay(
    source: LetterSource, target: ReplayTarget, ledger: Ledger | None, most: int | None
) -> ReplayPlan:
    """Read all dead letters, and return what would be sent. Raises what reading raises."""
    plan = ReplayPlan(target, ReplayChains("" if ledger is None else ledger.id))
    await _read_chains(source, plan, ledger)
    choice = LetterSelection(ledger, target, plan.chains, is_plan=True)
    count = 0
    async with aclosing(source.batches()) as batches:
        async for letters in batches:
            for letter, left in choice.choose(letters):
                if left is not None:
                    plan.not_sent[left] = plan.not_sent.get(left, 0) + 1
                elif most is not None and count >= most:
                    plan.left_count += 1
                else:
                    count += 1
                    _add(plan, letter)
    if plan.count and (blind := _unknown_deaths(plan.unresolved)) is not None:
        plan.unresolved.append(blind)
    if plan.unsendable_count:
        what = counted(plan.unsendable_count, "dead letter")
        error = RefusedError(
            "The topic to which a message was first sent is not recorded.",
            hint="Export the dead letters, keep those without originTopic, and replay this file with --to-topic TOPIC.",
        )
        plan.unresolved.append(Failure(None, what, error, Attempt.WRITE))
    plan.failures = with_failures(source.failures(), plan.unresolved)
    return plan


async def _read_chains(source: LetterSource, plan: ReplayPlan, ledger: Ledger | None) -> None:
    """Find the dead letters that died again. The later one can be in any queue, and outside the conditions."""
    for row in [] if ledger is None else ledger.in_doubt():
        position = position_text(row.broker_name, row.queue_id, row.queue_offset)
        plan.chains.add_sent(row.message_id, position, is_in_doubt=True)
    async with aclosing(source.all_batches(marked_only=True)) as batches:
        async for letters in batches:
            for letter in letters:
                plan.chains.add_marked(letter.message_id, letter.position, letter.mark)
            if ledger is not None:
                # The ledger knows what it sent of a message that other ledgers sent too.
                ids = {each.message_id for each in letters if plan.chains.is_foreign(each.mark)}
                for message_id, broker_name, queue_id, offset in ledger.sent_places(sorted(ids)):
                    plan.chains.add_sent(message_id, position_text(broker_name, queue_id, offset))
    plan.chains.link()
    plan.unresolved = list(source.failures())
    if plan.chains.has_replaced:
        async with aclosing(source.all_batches(marked_only=False)) as batches:
            async for letters in batches:
                for letter in letters:
                    plan.chains.add_delivery(letter.message_id, letter.position, letter.mark)
        plan.chains.settle()
        plan.unresolved = with_failures(plan.unresolved, source.failures())


def _unknown_deaths(failures: Sequence[Failure]) -> Failure | None:
    """Return what follows for those that are sent, if the later dead letters of some brokers could not be read."""
    if not failures:
        return None
    names = sorted({each.broker_name for each in failures if each.broker_name is not None})
    where = f" on {listed(names)}" if names else ""
    error = RmqctlError(
        "It is unknown which messages died again there: an earlier dead letter of such a message is sent instead."
    )
    return Failure(None, f"later dead letters{where}", error)


def with_failures(failures: Iterable[Failure], more: Iterable[Failure]) -> list[Failure]:
    """Return failures, and those of another reading that are not among them."""
    found = list(failures)
    known = {(each.broker_name, each.what, each.error.sentence) for each in found}
    return [*found, *(each for each in more if (each.broker_name, each.what, each.error.sentence) not in known)]


async def check_targets(client: Client, plan: ReplayPlan, group: str) -> None:
    """Check whether each topic of a plan accepts messages; the others are added to its failures."""
    topics = {topic for _, topic in plan.to_send}
    answers = await ask_all(topics, TargetQueues(client, plan.target, group).queues)
    plan.failures += (Failure(None, f"topic {topic}", error, Attempt.WRITE) for topic, error in answers.failed.items())
    plan.obstacle = None if answers.ok else next(iter(answers.failed.values()), None)


def _add(plan: ReplayPlan, letter: DeadLetter) -> None:
    topic = plan.target.topic_of(letter.properties)
    if topic is None:
        raise AssertionError("it was chosen")
    key = origin_topic(letter.properties), topic
    tally = plan.to_send.get(key)
    if tally is None:
        tally = plan.to_send[key] = LetterTally()
    tally.add(letter)
    plan.again_count += letter.mark != ""
    if len(plan.sample) < _SAMPLE_COUNT:
        plan.sample.append(letter)
