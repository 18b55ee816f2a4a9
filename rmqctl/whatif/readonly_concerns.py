"""What an operator should know before taking write permission from a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from rmqctl.rules.words import counted, listed

from .concerns import Concern
from .readonly import Effect, Mode, Other, Readonly, Verdict, Way

_named = partial(listed, shown=5)


def find_readonly_concerns(
    found: Readonly, others: Mapping[str, Other], not_consuming: Sequence[str] = ()
) -> tuple[Concern, ...]:
    """Return everything worth saying, what stands already first. `not_consuming` were asked for by name in vain."""
    return (*_already(found, others), *_groups(found), *_topics(found), *_not_there(found, not_consuming))


def _already(found: Readonly, others: Mapping[str, Other]) -> Iterator[Concern]:
    name = found.broker.broker_name
    if found.is_read_only:
        yield Concern(
            "ALREADY_READ_ONLY",
            f"Broker {name} has no write permission already (brokerPermission): what is shown is what happens now.",
        )
    elif found.wiped_topics:
        text = "producers go elsewhere already, while the broker itself still takes what it is sent."
        of = f"{len(found.wiped_topics)} of {counted(found.writable_count, 'topic')}"
        yield Concern("ALREADY_WIPED", f"Name servers have no write permission for {of} of {name}: {text}")
    if found.is_only_broker:
        registered = " registered" if found.missing_names else ""
        missing = f" {_named(found.missing_names)} should be there too." if found.missing_names else ""
        text = f"Broker {name} is the only{registered} one of cluster {found.broker.cluster}.{missing}"
        yield Concern("ONLY_BROKER", text)
    lacking = sorted(other for other, told in others.items() if told.is_writable is False)
    if lacking:
        yield Concern("OTHERS_READ_ONLY", f"Without write permission already: {_named(lacking)}.")


def _groups(found: Readonly) -> Iterator[Concern]:
    blocked = [effect for effect in found.effects if effect.verdict is Verdict.BLOCKS]
    if blocked:
        text = "It is consumed again every 5 s (in order every second) until the permission is back,"
        yield Concern(
            "GROUPS_BLOCK",
            f"The first message that fails would block its queue in {counted(len(blocked), 'group')}:"
            f" {_named(effect.view.group for effect in blocked)}. {text} and no offset moves past it.",
        )
    mixed = [effect for effect in found.effects if found.way is Way.BROKER_PERMISSION and _is_mixed(effect)]
    if mixed:
        text = "while a lock is held, brokers from 5.1.1 put retries that clients send among the dead letters."
        groups = _named(effect.view.group for effect in mixed)
        yield Concern("ORDERLY_MIXED", f"Some members consume in order and some do not in {groups}: {text}")


def _is_mixed(effect: Effect) -> bool:
    modes = effect.view.modes
    return Mode.CONCURRENT in modes and bool(modes & {Mode.ORDERLY, Mode.ORDERLY_ENDLESS})


def _topics(found: Readonly) -> Iterator[Concern]:
    if found.unwritable_topics:
        count = counted(len(found.unwritable_topics), "topic")
        text = f"No other broker has queues to write to: {_named(found.unwritable_topics)}."
        yield Concern("TOPICS_UNWRITABLE", f"Producers could not send to {count} any more. {text}")


def _not_there(found: Readonly, not_consuming: Sequence[str]) -> Iterator[Concern]:
    if not_consuming:
        name = found.broker.broker_name
        yield Concern("NOT_CONSUMING", f"Consuming nothing of {name}: {_named(not_consuming)}.")
