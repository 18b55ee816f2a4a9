"""The request handlers of the sandbox's servers: a folder per server, and in it one file per request code.

A handler file rNNN_name.py has `handle(owner, request)`, where the owner is a Broker or the NameServer, and
`SINCE_5 = True` where 4.9 does not support the request. A code with the meaning of another one imports its `handle`.
`handle` returns the answer, or None when it answers later through `request.reply()`, or is a coroutine. It raises
RefusalError to answer with an error code. Files without a number have what several handlers share.
"""

from __future__ import annotations

import importlib
import pkgutil
import re

from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.server import Handler

BROKER = "broker"
NAME_SERVER = "name_server"

_FILE = re.compile(r"r(\d+)_\w+")


def load(server: str, profile: Profile) -> dict[int, Handler]:
    """Return the handlers of a server kind for a release, by request code."""
    folder = importlib.import_module(f"{__name__}.{server}")
    handlers: dict[int, Handler] = {}
    for found in pkgutil.iter_modules(folder.__path__):
        name = _FILE.fullmatch(found.name)
        if name is None:
            continue
        module = importlib.import_module(f"{folder.__name__}.{found.name}")
        if profile.is_5 or not getattr(module, "SINCE_5", False):
            handlers[int(name[1])] = module.handle
    return handlers
