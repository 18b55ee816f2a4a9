"""Offsets from elsewhere: from another group, or from a file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.queues import QueueChoice, fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, NotRegisteredError, RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import Consequence
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.rules.file_claims import require_fit
from rmqctl.rules.readable_queues import unreadable_words
from rmqctl.text.words import agreeing, counted, listed

from .files import OffsetEntry, OffsetFile
from .group_lookup import find_group
from .targets import ResetRequest


class GivenOffsets(Struct, frozen=True):
    """Offsets by queue, None if none is stored, of `topics`; see ResetRequest for the rest."""

    topics: tuple[str, ...]
    offsets: Mapping[MessageQueue, int | None]
    unread: Mapping[MessageQueue, str] = {}
    failures: tuple[Failure, ...] = ()
    consequences: tuple[Consequence, ...] = ()

    def added_to(self, request: ResetRequest) -> ResetRequest:
        """Return a request for these offsets, in its own topics, or in all of these if it has none."""
        return replace(
            request, topics=request.topics or self.topics, given=self.offsets, unread=self.unread,
            failures=self.failures, consequences=self.consequences,
        )  # fmt: skip


async def offsets_of_group(client: Client, group: str, topics: Sequence[str]) -> GivenOffsets:
    """Return a group's offsets, in some topics or all that it consumes, except its retry topic.

    A broker with any failure counts as not read. Raises the errors of find_group(), NotFoundError if no offset is
    stored, and the first failure if no broker was read.
    """
    found = await find_group(client, group, topics)
    reasons = {failure.broker_name: failure.error.sentence for failure in reversed(found.failures)}
    # Each group has its own retry topic.
    rows = [mq for mq in found.rows if not mq.topic.startswith(RETRY_PREFIX)]
    given = {mq: found.offsets[mq] for mq in rows if mq in found.offsets and mq.broker_name not in reasons}
    if not any(offset is not None for offset in given.values()):
        for failure in found.failures:
            sentence = f"Group {group} could not be read completely: {failure.what}: {failure.error.sentence}"
            raise failure.error.reworded(sentence)
        raise NotFoundError("Offset", group).reworded(f"Group {group} has no offsets to copy.")
    return GivenOffsets(
        topics=tuple(sorted({mq.topic for mq in given})),
        offsets=given,
        unread={mq: reasons[mq.broker_name] for mq in rows if mq.broker_name in reasons},
        failures=tuple(replace(each, what=f"{each.what} of group {group}") for each in found.failures),
        consequences=tuple(_not_copied(group, found.unreadable)),
    )


def _not_copied(group: str, unreadable: Mapping[MessageQueue, int]) -> Iterator[Consequence]:
    if unreadable:
        words = unreadable_words(unreadable, f"Group {group} has ")
        yield Consequence("UNREADABLE_QUEUES", f"{words}; their offsets are not copied.")


async def offsets_of_file(
    client: Client, file: OffsetFile, topics: Sequence[str], queues: Sequence[QueueChoice] = ()
) -> GivenOffsets:
    """Return the offsets of a file, only of the named topics if there are any.

    Raises UsageError for topics and queues that the file lacks, for a file of another cluster and for a queue that does
    not exist, NotFoundError for a topic that does not exist.
    """
    claimed = {entry.topic for entry in file.entries}
    require_fit("The file", "topic", claimed, topics, hint="Name its topics with --topic, or leave --topic out.")
    entries = [entry for entry in file.entries if not topics or entry.topic in topics]
    routes, missing = await _find_routes(client, sorted({entry.topic for entry in entries}))
    _require_cluster(file, entries, routes.values())
    counts = {
        (route.topic, place.broker_name): place.read_queue_count
        for route in routes.values()
        for place in (*route.queue_data, *route.missing)
        if place.is_readable
    }
    gone = {broker.broker_name for broker in (await client.cluster()).missing}
    # The file says that no consumer could read these. Unless that has changed, nothing would start from their offsets.
    cut = [entry for entry in entries if _is_cut(entry, counts)]
    resolved = resolve_brokers([each for each in entries if each.topic in routes and each not in cut], counts, gone)
    unread = {mq: entry.unread for mq, entry in resolved.items() if entry.unread}
    for entry in entries:
        if (error := missing.get(entry.topic)) is not None:
            if entry.broker_name is None:
                raise error
            unread[MessageQueue(entry.topic, entry.broker_name, entry.queue_id)] = error.sentence
    given = {mq: entry.offset for mq, entry in resolved.items() if mq not in unread}
    lacking = [str(choice) for choice in queues if not any(choice.has(mq) for mq in (*given, *unread))]
    hint = "Name its queues with --queue, or leave --queue out."
    require_fit("The file", "queue", [str(mq) for mq in (*given, *unread)], lacking, hint=hint)
    failures, consequences = _not_whole(file)
    return GivenOffsets(tuple(sorted(routes)), given, unread, failures, (*consequences, *_left_out(cut)))


def _is_cut(entry: OffsetEntry, counts: Mapping[tuple[str, str], int]) -> bool:
    count = counts.get((entry.topic, entry.broker_name or ""))
    return not entry.is_readable and count is not None and entry.queue_id >= count


def _left_out(cut: Sequence[OffsetEntry]) -> Iterator[Consequence]:
    if cut:
        names = [f"{entry.topic}@{entry.broker_name}:{entry.queue_id}" for entry in cut]
        queues, are = counted(len(cut), "queue"), agreeing(len(cut), "is")
        text = f"{queues} that no consumer can read {are} left out: {listed(names)}."
        yield Consequence("UNREADABLE_QUEUES", text)


async def _find_routes(
    client: Client, topics: Sequence[str]
) -> tuple[Mapping[str, TopicRoute], dict[str, NotRegisteredError]]:
    """Return the routes of topics, and the errors of topics whose brokers are not registered now.

    Raises any other error, and one of these if no topic has a route.
    """
    routes = await ask_all(topics, lambda topic: fetch_route(client, topic))
    missing = {topic: error for topic, error in routes.failed.items() if isinstance(error, NotRegisteredError)}
    for topic, error in routes.failed.items():
        if not routes.ok or topic not in missing:
            raise error
    return routes.ok, missing


def _not_whole(file: OffsetFile) -> tuple[tuple[Failure, ...], tuple[Consequence, ...]]:
    """Return the failure and the consequence for a file that was made while a part could not be read."""
    if not file.not_read:
        return (), ()
    error = RmqctlError(f"{listed(file.not_read)}.")
    text = "The file is incomplete: it lacks what could not be read when it was made."
    return (Failure(None, "a part of the file", error),), (Consequence("FILE_NOT_WHOLE", text),)


def _require_cluster(file: OffsetFile, entries: Sequence[OffsetEntry], routes: Iterable[TopicRoute]) -> None:
    """Raise UsageError if the file is from another cluster than the brokers that it names."""
    here = {broker.broker_name: broker.cluster for route in routes for broker in route.brokers if broker.cluster}
    named = {here[entry.broker_name] for entry in entries if entry.broker_name in here}
    hint = "Name that cluster with -n or --context."
    require_fit("The file", "cluster", file.clusters, named or {*here.values()}, hint=hint)


def resolve_brokers(
    entries: Iterable[OffsetEntry], read_queue_counts: Mapping[tuple[str, str], int], missing: Collection[str] = ()
) -> dict[MessageQueue, OffsetEntry]:
    """Return the entries by queue. `read_queue_counts` are by (topic, broker name), of all topics named.

    Queues at `missing` brokers without a count are not checked, since their number is unknown.

    A bare partition is accepted only if its topic is on a single broker. Raises UsageError for one that could be on
    several brokers, for a queue that does not exist, and for a queue that is named twice.
    """
    counts: dict[str, dict[str, int]] = {}
    for (topic, broker_name), count in sorted(read_queue_counts.items()):
        if count > 0:
            counts.setdefault(topic, {})[broker_name] = count
    resolved: dict[MessageQueue, OffsetEntry] = {}
    for entry in entries:
        there = counts.get(entry.topic, {})
        is_missing = entry.broker_name in missing and entry.broker_name not in there
        mq = (
            MessageQueue(entry.topic, entry.broker_name or "", entry.queue_id) if is_missing else _resolve(entry, there)
        )
        other = resolved.setdefault(mq, entry)
        if other is not entry:
            at = "" if entry.line is None else f" (lines {other.line} and {entry.line})"
            raise UsageError(f"{mq} is named twice{at}.")
    return resolved


def _resolve(entry: OffsetEntry, counts: Mapping[str, int]) -> MessageQueue:
    if not counts:
        raise UsageError(f"Topic {entry.topic} has no readable queues{_at(entry)}.")
    broker_name = entry.broker_name
    if broker_name is None:
        if len(counts) > 1:
            first = next(iter(counts))
            raise UsageError(
                f"Topic {entry.topic} is on {' and '.join(counts)}: queue {entry.queue_id} is ambiguous{_at(entry)}.",
                hint=f"Add the broker: {first}:{entry.queue_id} instead of {entry.queue_id}.",
            )
        broker_name = next(iter(counts))
    if entry.queue_id >= counts.get(broker_name, 0):
        there = " and ".join(f"{name}:0-{count - 1}" if count > 1 else f"{name}:0" for name, count in counts.items())
        raise UsageError(
            f"Topic {entry.topic} has no queue {broker_name}:{entry.queue_id}{_at(entry)}.", hint=f"It has {there}."
        )
    return MessageQueue(entry.topic, broker_name, entry.queue_id)


def _at(entry: OffsetEntry) -> str:
    return f" (line {entry.line})" if entry.line is not None else ""
