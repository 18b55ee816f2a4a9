"""Findings that an operator should know before removing write permission from a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from rmqctl.model.failure import Failure
from rmqctl.model.progress import Unknown
from rmqctl.text.words import counted, listed

from .concerns import Concern
from .readonly import OtherBroker, Readonly, ReadonlyVerdict, RemovalMethod, is_mixed, may_block

_named = partial(listed, shown=5)


def find_readonly_concerns(
    found: Readonly, others: Mapping[str, OtherBroker], not_consuming: Sequence[str] = ()
) -> tuple[Concern, ...]:
    """Return all findings, present facts first; `not_consuming` are groups named on the command line in vain."""
    return (*_already(found, others), *_groups(found), *_topics(found), *_not_there(found, not_consuming))


def _already(found: Readonly, others: Mapping[str, OtherBroker]) -> Iterator[Concern]:
    name = found.broker.broker_name
    if found.is_read_only:
        yield Concern(
            "ALREADY_READ_ONLY",
            f"Broker {name} already has no write permission (brokerPermission): the effects shown apply now.",
        )
    elif found.wiped_topics:
        text = "producers that ask it use other brokers, while the broker itself still accepts messages."
        of = f"{len(found.wiped_topics)} of {counted(found.writable_count, 'topic')}"
        yield Concern("ALREADY_WIPED", f"A name server has no write permission for {of} of {name}: {text}")
    if found.is_only_broker:
        registered = " registered" if found.missing_names else ""
        missing = f" {_named(found.missing_names)} should be registered too." if found.missing_names else ""
        text = f"Broker {name} is the only{registered} broker of cluster {found.broker.cluster}.{missing}"
        yield Concern("ONLY_BROKER", text)
    lacking = sorted(other for other, reported in others.items() if reported.is_writable is False)
    if lacking:
        yield Concern("OTHERS_READ_ONLY", f"Other brokers without write permission: {_named(lacking)}.")


def _groups(found: Readonly) -> Iterator[Concern]:
    blocked = [effect for effect in found.effects if effect.verdict is ReadonlyVerdict.BLOCKS]
    if blocked:
        text = "The message is retried every 5 s (orderly: every second) until the permission is restored,"
        yield Concern(
            "GROUPS_BLOCK",
            f"The first failed message would block its queue in {counted(len(blocked), 'group')}:"
            f" {_named(effect.view.group for effect in blocked)}. {text} and no offset is committed past it.",
        )
    mixed = [effect for effect in found.effects if found.way is RemovalMethod.BROKER_PERMISSION and is_mixed(effect)]
    if mixed:
        text = "while a lock is held, brokers since 5.1.1 turn retries that clients send into dead letters."
        groups = _named(effect.view.group for effect in mixed)
        yield Concern("ORDERLY_MIXED", f"Some members consume in order and some do not in {groups}: {text}")


def _topics(found: Readonly) -> Iterator[Concern]:
    if found.unwritable_topics:
        count = counted(len(found.unwritable_topics), "topic")
        text = f"No other broker has writable queues of {_named(found.unwritable_topics)}."
        yield Concern("TOPICS_UNWRITABLE", f"Producers could no longer send to {count}. {text}")


def _not_there(found: Readonly, not_consuming: Sequence[str]) -> Iterator[Concern]:
    if not_consuming:
        name = found.broker.broker_name
        yield Concern("NOT_CONSUMING", f"Groups that do not consume from {name}: {_named(not_consuming)}.")


def find_unknown_effects(found: Readonly) -> Iterator[Concern]:
    """Yield the groups whose effects are unknown, which a table of the effects shows one by one."""
    unknown = [effect for effect in found.effects if effect.verdict is ReadonlyVerdict.UNKNOWN]
    absent = [effect for effect in unknown if effect.why is Unknown.NO_MEMBERS]
    is_refused = found.way is RemovalMethod.BROKER_PERMISSION
    blocking = [effect.view.group for effect in absent if is_refused and may_block(effect)]
    if blocking:
        text = "start, their first failed message blocks its queue: no other broker stores it."
        yield Concern("GROUPS_WOULD_BLOCK", f"If members of {_named(blocking)} {text}")
    empty = [effect.view.group for effect in absent if effect.view.group not in blocking]
    if empty:
        groups = f"{counted(len(empty), 'group')} without members there: {_named(empty)}"
        yield Concern("NO_MEMBERS", f"Where failed messages would be stored is not known for {groups}.")
    others = [f"{effect.view.group} ({effect.why})" for effect in unknown if effect.why is not Unknown.NO_MEMBERS]
    if others:
        # The failure itself names what is missing, such as a right.
        why = next((each.error.sentence for each in found.failures if is_about_members(each)), "")
        text = f"Where failed messages would be stored is unknown for {_named(others)}. {why}"
        yield Concern("EFFECT_UNKNOWN", text.rstrip())


def is_about_members(failure: Failure) -> bool:
    """Return whether only the members of a group are unknown."""
    return failure.what.startswith(("running info", "members of"))
