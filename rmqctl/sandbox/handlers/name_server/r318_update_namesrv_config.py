"""UPDATE_NAMESRV_CONFIG: change settings of the name server (DefaultRequestProcessor.updateConfig)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import RefusalError, Request, ok
from rmqctl.sandbox.settings import parse_properties


def handle(name_server: NameServer, request: Request) -> Command:
    """Apply settings that the sandbox obeys, refuse others."""
    values = parse_properties(request.command.body)
    if name_server.profile.is_5:
        if name_server.settings.is_forbidden(values):
            raise RefusalError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    elif {"kvConfigPath", "configStorePath"} & values.keys():
        raise RefusalError(ResponseCode.NO_PERMISSION, "Can not update config path")
    name_server.settings.check_obeyed(values)
    name_server.settings.update(values)
    return ok()
