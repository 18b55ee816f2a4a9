"""Calls code of plugins: each failure becomes one sentence, and no invalid result gets through."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from reprlib import repr as short_repr
from typing import Any

from msgspec.structs import replace

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Check, Symptom
from rmqctl.errors import PluginError
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Assignment, CustomStrategy
from rmqctl.rules.allocate.base import check, require_ids

from .hookspecs import BodyCodec, LetterTransform, Notifier, SiteResolver

# Plugin code can raise anything; Ctrl-C and the end of a task still end the program.
_ENDS = (KeyboardInterrupt, asyncio.CancelledError)


def exception_line(error: BaseException) -> str:
    """Return an exception as one line: its class and message. Raises it again if it ends the program."""
    if isinstance(error, _ENDS):
        raise error
    try:
        words = " ".join(str(error).split()).rstrip(".")
    except BaseException as second:  # str() of a plugin's exception can fail too
        if isinstance(second, _ENDS):
            raise
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def run_codec(name: str, codec: BodyCodec, body: bytes, properties: Mapping[str, str], topic: str) -> Any:
    """Decode a body. Raises PluginError when the codec fails or its value cannot be written as JSON."""
    try:
        value = codec(body, properties, topic)
        json.dumps(value, allow_nan=False)
    except BaseException as error:
        raise PluginError(f"Codec {name} failed: {exception_line(error)}.") from error
    return value


def guarded_strategy(name: str, strategy: CustomStrategy, plugin: str | None = None) -> CustomStrategy:
    """Wrap a strategy: the result has every client, only the given queues, and no queue twice for one client.

    The wrapper raises PluginError for any other result, and AllocationError when the strategy rejects the input.
    """
    who = _who("Strategy", name, plugin)

    def allocate(queues: Sequence[MessageQueue], client_ids: Sequence[str], options: Mapping[str, Any]) -> Assignment:
        check(queues, client_ids)
        require_ids(client_ids)
        try:
            # Copies: the strategy may change them.
            answer = strategy(list(queues), list(client_ids), dict(options))
            return _checked(answer, queues, client_ids)
        except AllocationError as error:
            if str(error):
                raise
            raise PluginError(f"{who} failed: it raises AllocationError without a reason.") from error
        except _WrongAnswerError as error:
            raise PluginError(f"{who} failed: {error}.") from None
        except BaseException as error:
            raise PluginError(f"{who} failed: {exception_line(error)}.") from error

    return allocate


def guarded_notifier(name: str, notifier: Notifier, plugin: str | None = None) -> Notifier:
    """Wrap a notifier: it raises PluginError when it fails."""
    who = _who("Notifier", name, plugin)

    def notify(alerts: Mapping[str, Any], target: str) -> None:
        try:
            notifier(dict(alerts), target)
        except BaseException as error:
            raise PluginError(f"{who} failed: {exception_line(error)}.") from error

    return notify


def guarded_resolver(name: str, resolver: SiteResolver, plugin: str | None = None) -> SiteResolver:
    """Wrap a resolver: it returns a string or None, and raises PluginError otherwise."""
    who = _who("Site resolver", name, plugin)

    def resolve(kind: str, asked: str) -> str | None:
        try:
            room = resolver(kind, asked)
        except BaseException as error:
            raise PluginError(f"{who} failed for {kind} {asked}: {exception_line(error)}.") from error
        if room is not None and not isinstance(room, str):
            raise PluginError(f"{who} failed: for {kind} {asked} it returns {short_repr(room)}, not a string.")
        return room

    return resolve


# As LetterTransform; returns the body and the changed properties, or None.
GuardedTransform = Callable[[bytes, Mapping[str, str], str], tuple[bytes, Mapping[str, str | None]] | None]


def guarded_transform(name: str, transform: LetterTransform) -> GuardedTransform:
    """Wrap a transform: it returns a body and changed properties, or None, and raises PluginError otherwise."""

    def change(body: bytes, properties: Mapping[str, str], topic: str) -> tuple[bytes, Mapping[str, str | None]] | None:
        try:
            made = transform(body, dict(properties), topic)
        except BaseException as error:
            raise PluginError(f"Transform {name} failed: {exception_line(error)}.") from error
        if made is None:
            return None
        new, changes = made if isinstance(made, tuple) and len(made) == 2 else (made, {})
        if not isinstance(new, bytes) or not new or not isinstance(changes, Mapping):
            raise PluginError(
                f"Transform {name} failed: it returns {short_repr(made)}, not a body or (body, properties)."
            )
        for key, value in changes.items():
            if not isinstance(key, str) or not key or not (value is None or (isinstance(value, str) and value)):
                raise PluginError(f"Transform {name} failed: {short_repr(key)}={short_repr(value)} is not a property.")
        return new, changes

    return change


def guarded_check(code: str, made: Any, plugin: str) -> Check:
    """Wrap a check: its failures are PluginErrors. Raises PluginError unless it is a Check with this code."""
    who = _who("Check", code, plugin)
    if not isinstance(made, Check) or made.code != code:
        what = f"its code is {made.code}" if isinstance(made, Check) else f"it is {short_repr(made)}"
        raise PluginError(f"{who} failed: {what}.", hint="Define it with @rmqctl.plugin.check(CODE, ...).")

    def find(facts: GroupFacts) -> list[Symptom]:
        try:
            symptoms = list(made.find(facts))
        except BaseException as error:
            raise PluginError(f"{who} failed: {exception_line(error)}.") from error
        for symptom in symptoms:
            if not isinstance(symptom, Symptom) or not isinstance(symptom.sentence, str):
                raise PluginError(f"{who} failed: it yields {short_repr(symptom)}, not a Symptom.")
        return symptoms

    return replace(made, find=find)


class _WrongAnswerError(Exception):
    """A strategy returned an invalid assignment; the text ends a sentence."""


def _who(noun: str, name: str, plugin: str | None) -> str:
    return f"{noun} {name} of plugin {plugin}" if plugin is not None else f"{noun} {name}"


def _checked(answer: Any, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> Assignment:
    """Return the answer with every client. Queues are looked up as a set, because there can be 100,000."""
    if not isinstance(answer, Mapping):
        raise _WrongAnswerError(f"it returns {short_repr(answer)}, not a mapping of client ids to queues")
    whole: Assignment = {client_id: [] for client_id in client_ids}
    given = {queue: queue for queue in queues}
    for client_id, share in answer.items():
        if client_id not in whole:
            raise _WrongAnswerError(f"it gives queues to client {client_id}, which is not in the group")
        if not isinstance(share, list | tuple) or isinstance(share, MessageQueue):
            raise _WrongAnswerError(f"it gives client {client_id} {short_repr(share)}, not a list of queues")
        # Types first: a plain tuple equals a queue, and an unhashable value cannot be looked up.
        if not {*map(type, share)} <= {MessageQueue} or not given.keys() >= set(share):
            raise _WrongAnswerError(_stranger(client_id, share, given))
        if len(set(share)) < len(share):
            twice = Counter(share).most_common(1)[0][0]
            raise _WrongAnswerError(f"it gives queue {twice} to client {client_id} twice")
        # Use the given queues: a queue id of 1.0 or True also equals 1.
        whole[client_id] = [given[queue] for queue in share]
    return whole


def _stranger(client_id: str, share: Sequence[Any], given: Collection[MessageQueue]) -> str:
    """Describe the first item of a share that was not given."""
    for item in share:
        if type(item) is not MessageQueue:
            return f"it gives client {client_id} {short_repr(item)}, not a MessageQueue"
        if item not in given:
            return f"it gives client {client_id} queue {item}, which was not given"
    raise AssertionError
