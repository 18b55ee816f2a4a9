"""The request handlers of the sandbox's servers: one file per request code, named rNNN_name.py.

A handler file has `SERVER` ("broker" or "namesrv"), `handle(owner, request)`, and `SINCE_5 = True` where 4.9 does not
support the request. `handle` returns the answer, or None when it answers later through `request.reply()`, or is a
coroutine. It raises RefusalError to answer with an error code.
"""

from __future__ import annotations

import importlib
import pkgutil
import re

from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.server import Handler

BROKER = "broker"
NAME_SERVER = "namesrv"

_FILE = re.compile(r"r(\d+)_\w+")


def load(server: str, profile: Profile) -> dict[int, Handler]:
    """Return the handlers of a server kind for a release, by request code."""
    handlers: dict[int, Handler] = {}
    for found in pkgutil.iter_modules(__path__):
        name = _FILE.fullmatch(found.name)
        if name is None:
            continue
        module = importlib.import_module(f"{__name__}.{found.name}")
        if server == module.SERVER and (profile.is_5 or not getattr(module, "SINCE_5", False)):
            handlers[int(name[1])] = module.handle
    return handlers
