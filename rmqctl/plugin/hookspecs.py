"""The hooks of rmqctl: functions that a plugin may define. A plugin is a module that marks them with `hookimpl`.

    from rmqctl.plugin.hookspecs import hookimpl

    @hookimpl
    def rmqctl_body_codecs():
        return {"reversed": lambda body, properties, topic: body[::-1].decode()}

It is found by an entry point in the group "rmqctl", or by its file: --plugin FILE, or the variable RMQCTL_PLUGINS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pluggy

PROJECT = "rmqctl"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# Takes a body (decompressed bytes), the message's properties and its topic; returns text, or a value that JSON can
# hold: dicts with text keys, lists, texts, numbers, booleans, None. An exception is shown with the message.
BodyCodec = Callable[[bytes, Mapping[str, str], str], Any]


@hookspec
def rmqctl_body_codecs() -> Mapping[str, BodyCodec]:  # type: ignore[empty-body]
    """Return ways to read message bodies, by the name that --codec takes.

    A name of rmqctl's own codecs may be taken over; of two plugins with one name neither is used.
    """
