"""GET_NAMESRV_CONFIG: all settings of the name server (DefaultRequestProcessor.getConfig)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok


def handle(name_server: NameServer, _: Request) -> Command:
    """Return them as a properties file."""
    return ok(name_server.settings.to_properties())
