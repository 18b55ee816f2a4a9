"""GET_BROKER_MEMBER_GROUP: the replicas of a broker (RouteInfoManager.getBrokerMemberGroup)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import UNSET_REMARK, Request, ok

SINCE_5 = True


def handle(name_server: NameServer, request: Request) -> Command:
    """Return their addresses, none for an unknown broker."""
    cluster, name = request.text("clusterName", None), request.text("brokerName", None)
    entry = name_server.brokers.get(name or "")
    addresses = {} if entry is None else entry.addresses
    group = {"brokerAddrs": addresses, "brokerName": name, "cluster": cluster}
    return ok(dumps({"brokerMemberGroup": group}), remark=UNSET_REMARK)
