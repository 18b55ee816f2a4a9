"""The hooks of rmqctl: functions that a plugin can define. A plugin is a module that marks them with `hookimpl`.

    from rmqctl.plugin import hookimpl

    @hookimpl
    def rmqctl_body_codecs():
        return {"reversed": lambda body, properties, topic: body[::-1].decode()}

rmqctl finds it by an entry point in the group "rmqctl", or by its file: --plugin FILE, or the variable RMQCTL_PLUGINS.
A plugin may replace built-in names. When two plugins define the same name, rmqctl uses neither and fails. `rmqctl
plugin list` shows both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pluggy

from rmqctl.diagnose.finding import Check
from rmqctl.rules.allocate import CustomStrategy

PROJECT = "rmqctl"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# Accepts a body (decompressed bytes), the message's properties and its topic. Returns a value that JSON can represent:
# a string, number, boolean, None, or lists and dicts (with string keys) of them. Exceptions are shown with the message.
BodyCodec = Callable[[bytes, Mapping[str, str], str], Any]

# Accepts a dead letter's body, its properties and its origin topic ("" if unknown). Returns the new body, or a tuple
# of the body and the changed properties (None deletes one). Returns None to leave the dead letter out.
LetterTransform = Callable[[bytes, Mapping[str, str], str], Any]

# Accepts alerts (a JSON object of the kind AlertList) and the text after the notifier's name in --notify. Raises an
# exception if they could not be delivered.
Notifier = Callable[[Mapping[str, Any], str], None]

# Accepts "broker" or "client", and the broker's name or the client's id; returns its room, or None if unknown.
SiteResolver = Callable[[str, str], str | None]


@hookspec
def rmqctl_body_codecs() -> Mapping[str, BodyCodec]:  # type: ignore[empty-body]
    """Return codecs for message bodies, by the name that --codec accepts.

    A codec accepts the body, the properties and the topic: see BodyCodec.
    """


@hookspec
def rmqctl_strategies() -> Mapping[str, CustomStrategy]:  # type: ignore[empty-body]
    """Return strategies that allocate queues to clients, by the name that --strategy accepts.

    A strategy accepts one topic's queues and the group's client ids, both sorted as clients sort them, and its options
    (`options.custom` of a description). It returns the queues of each client, and raises AllocationError with a
    sentence when it rejects the input. Clients that it leaves out get no queues. The result must depend on nothing but
    the arguments, because every client of a group computes it alone.
    """


@hookspec
def rmqctl_site_resolvers() -> Mapping[str, SiteResolver]:  # type: ignore[empty-body]
    """Return resolvers that find the room of a broker or client, by name, for machine-room-nearby.

    A resolver accepts "broker" or "client", and the broker's name or the client's id: see SiteResolver.
    """


@hookspec
def rmqctl_checks() -> Mapping[str, Check]:  # type: ignore[empty-body]
    """Return checks of consumer groups, by the code that `diagnose` shows: letters and a number, for example ACME001.

    A check wraps a function that accepts a group's facts and yields symptoms: see rmqctl.diagnose.finding.check.
    """


@hookspec
def rmqctl_letter_transforms() -> Mapping[str, LetterTransform]:  # type: ignore[empty-body]
    """Return transforms for dead letters on replay, by the name that --transform accepts.

    A transform accepts the body, the properties and the topic: see LetterTransform. An exception ends the replay.
    """


@hookspec
def rmqctl_notifiers() -> Mapping[str, Notifier]:  # type: ignore[empty-body]
    """Return notifiers for the alerts of `rmqctl watch`, by the name that --notify accepts.

    A notifier accepts the alerts of one round and the target: see Notifier. It runs in a thread of its own.
    """
