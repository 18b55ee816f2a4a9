"""The hooks of rmqctl: functions that a plugin may define. A plugin is a module that marks them with `hookimpl`.

    from rmqctl.plugin import hookimpl

    @hookimpl
    def rmqctl_body_codecs():
        return {"reversed": lambda body, properties, topic: body[::-1].decode()}

It is found by an entry point in the group "rmqctl", or by its file: --plugin FILE, or the variable RMQCTL_PLUGINS.
Names of rmqctl's own may be taken over; of two plugins with one name neither is used. `rmqctl plugin list` tells.
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

# Takes a body (decompressed bytes), the message's properties and its topic; returns text, or a value that JSON can
# hold: dicts with text keys, lists, texts, numbers, booleans, None. An exception is shown with the message.
BodyCodec = Callable[[bytes, Mapping[str, str], str], Any]

# Takes a dead letter's body, its properties and the topic that it was first sent to ("" if it does not tell). Returns
# the new body, or a tuple of it and the properties that change (None takes one away); None for what is not to be sent.
LetterTransform = Callable[[bytes, Mapping[str, str], str], Any]

# Takes "broker" or "client", and the broker's name or the client's id; returns its room, None for an unknown one.
SiteResolver = Callable[[str, str], str | None]


@hookspec
def rmqctl_body_codecs() -> Mapping[str, BodyCodec]:  # type: ignore[empty-body]
    """Return ways to read message bodies, by the name that --codec takes.

    A codec takes the body, the properties and the topic: see BodyCodec.
    """


@hookspec
def rmqctl_strategies() -> Mapping[str, CustomStrategy]:  # type: ignore[empty-body]
    """Return ways to share queues among clients, by the name that --strategy takes.

    A strategy takes one topic's queues and the group's client ids, both sorted as clients sort them, and its options
    (`options.custom` of a description). It returns each client's queues, and raises AllocationError with a sentence
    for what it refuses. Clients that it leaves out get nothing; the result must depend on nothing else, as every
    client of a group computes it alone.
    """


@hookspec
def rmqctl_site_resolvers() -> Mapping[str, SiteResolver]:  # type: ignore[empty-body]
    """Return ways to tell in which room a broker or client is, by name, for machine-room-nearby.

    A resolver takes "broker" or "client", and the broker's name or the client's id: see SiteResolver.
    """


@hookspec
def rmqctl_checks() -> Mapping[str, Check]:  # type: ignore[empty-body]
    """Return checks of consumer groups, by the code that `diagnose` shows: letters and a number, such as ACME001.

    A check is made of a function that takes a group's facts and yields symptoms: see rmqctl.diagnose.finding.check.
    """


@hookspec
def rmqctl_letter_transforms() -> Mapping[str, LetterTransform]:  # type: ignore[empty-body]
    """Return changes of dead letters that are replayed, by the name that --transform takes.

    A transform takes the body, the properties and the topic: see LetterTransform. An exception ends the replay.
    """
