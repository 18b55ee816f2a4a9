"""Find popped messages that no client has acknowledged, in the brokers' records of pops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_settings
from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.admin.messages.pop_log import PopLog, find_hindrance, read_pop_log
from rmqctl.admin.messages.pull import FoundMessage, fetch_one
from rmqctl.admin.offsets.reading import BrokerView
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.pop_checkpoints import PopHindrance, PoppedRecord
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted

# At most this many messages are fetched: each needs a request.
MOST_LISTED = 1_000


class PoppedMessage(Struct, frozen=True):
    """A message that was popped `age_ms` ago by its broker's clock and is not acknowledged."""

    popped: PoppedRecord
    age_ms: int
    message: FoundMessage


class PopScan(Struct, frozen=True):
    """Messages that were popped too long ago; `hindrances`: by broker whose pops cannot be read; `notes`: sentences."""

    messages: tuple[PoppedMessage, ...] = ()
    hindrances: Mapping[str, PopHindrance] = {}
    notes: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()


async def scan_pops(
    client: Client, group: str, views: Mapping[str, BrokerView], older_than_ms: int,
    is_asked: Callable[[MessageQueue], bool],
) -> PopScan:  # fmt: skip
    """Read the records of a group's pops from brokers of 5.x. Errors are returned as failures, not raised."""
    brokers = {name: view.broker for name, view in views.items() if view.version >= V5_0_0}
    settings, configs = await asyncio.gather(
        ask_all(brokers, lambda name: fetch_settings(client, brokers[name])), fetch_configs(client, brokers)
    )
    in_order = {
        name for name, table in configs.ok.items()
        if group in table and table[group].fields.get("consumeMessageOrderly") is True
    }  # fmt: skip
    hindrances = {
        name: found
        for name, config in settings.ok.items()
        if (found := find_hindrance(config, is_orderly=name in in_order, older_than_ms=older_than_ms)) is not None
    }
    readable = [name for name in settings.ok if hindrances.get(name) in (None, PopHindrance.IN_MEMORY)]
    logs = await ask_all(readable, lambda name: read_pop_log(client, client.require_master(brokers[name]), name, group))
    unread = {**settings.failed, **logs.failed}
    hindrances |= dict.fromkeys(unread, PopHindrance.UNREADABLE)
    failures = [Failure(name, "records of pops", error) for name, error in unread.items()]
    popped = {
        name: [each for each in log.records.unacknowledged(log.now_ms) if is_asked(each.mq)]
        for name, log in logs.ok.items()
    }
    old = [
        (each, logs.ok[name].now_ms - each.pop_time_ms)
        for name, found in popped.items()
        for each in found
        if not each.is_renewed and logs.ok[name].now_ms - each.pop_time_ms >= older_than_ms
    ]
    failures += _left_out(logs.ok, len(old))

    async def fetch(pair: tuple[PoppedRecord, int]) -> FoundMessage:
        return await fetch_popped(client, client.require_master(brokers[pair[0].mq.broker_name]), pair[0])

    messages = await ask_all(old[:MOST_LISTED], fetch)
    listed = [PoppedMessage(*pair, message) for pair, message in messages.ok.items()]
    failures += [
        Failure(each.mq.broker_name, f"popped message {each.queue_offset} of {each.mq}", error)
        for (each, _), error in messages.failed.items()
    ]
    notes = _notes([each for found in popped.values() for each in found], older_than_ms)
    return PopScan(tuple(listed), hindrances, tuple(notes), tuple(failures))


async def fetch_popped(client: Client, address: str, popped: PoppedRecord) -> FoundMessage:
    """Return a popped message as stored; a deleted one has an error instead. Raises the errors of a pull."""
    mq, offset = popped.mq, popped.queue_offset
    message = await fetch_one(client, address, mq, offset)
    absent = NotFoundError("Message", f"{mq} offset {offset}") if message is None else None
    return FoundMessage(mq, offset, message, absent)


def _left_out(logs: Mapping[str, PopLog], old_count: int) -> Iterator[Failure]:
    for name, log in logs.items():
        if log.since_ms is not None:
            sentence = f"{name} has too many records of pops; only those since {iso_time(log.since_ms)} were read."
            yield Failure(name, "older records of pops", RmqctlError(sentence))
    if old_count > MOST_LISTED:
        sentence = f"{old_count} messages were popped that long ago; only the first {MOST_LISTED} are listed."
        yield Failure(
            None, "more popped messages", RmqctlError(sentence, hint="Narrow the search with --topic and --queue.")
        )


def _notes(popped: list[PoppedRecord], older_than_ms: int) -> Iterator[str]:
    renewed_count = sum(each.is_renewed for each in popped)
    if renewed_count:
        yield (
            f"The invisible time of {counted(renewed_count, 'popped message')} was changed: a listener failed and the "
            "message waits for its retry, or a proxy renews it. Such messages do not count as stuck."
        )
    longest_ms = max((each.invisible_ms for each in popped if not each.is_renewed), default=None)
    if longest_ms is not None and longest_ms <= older_than_ms:
        yield (
            f"The broker redelivers a popped message after {short_duration(longest_ms)}, so no message "
            f"reaches --older-than {short_duration(older_than_ms)}. Use a shorter --older-than."
        )
