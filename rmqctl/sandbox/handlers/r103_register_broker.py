"""REGISTER_BROKER: a broker registers itself and its topics (DefaultRequestProcessor.registerBroker)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.sandbox.handlers import NAME_SERVER
from rmqctl.sandbox.name_server import ORDER_CONFIG, NameServer
from rmqctl.sandbox.registration import read_registration
from rmqctl.sandbox.request import RefusalError, Request, ok

SERVER = NAME_SERVER


def handle(name_server: NameServer, request: Request) -> Command:
    """Register it; return its master to a slave, and the configuration of ordered topics to all."""
    told = read_registration(name_server.profile, request)
    if not name_server.register(told):
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "register broker failed")
    ha_address, master = name_server.master_of(told) or (None, None)
    orders = name_server.key_values.get(ORDER_CONFIG)
    return_orders = not name_server.profile.is_5 or name_server.settings.flag("returnOrderTopicConfigToBroker")
    body = dumps({"table": orders}) if orders is not None and return_orders else b""
    return ok(body, haServerAddr=ha_address, masterAddr=master)
