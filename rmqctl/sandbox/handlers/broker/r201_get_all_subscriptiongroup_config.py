"""GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all groups of a broker, since 5.x in pages (AdminBrokerProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json

from .table_pages import page


def handle(broker: Broker, request: Request) -> Command:
    """Return them, with the forbidden topics of each group."""
    table = broker.groups
    version = table.version.to_wire(broker.profile)
    if not broker.profile.is_5:
        return ok_json({"dataVersion": version, "subscriptionGroupTable": table.groups})
    part = page(
        request, table.groups, table.version, seq_field="groupSeq", count_field="maxGroupNum",
        default_count=broker.settings.number("splitMetadataSize"), is_5_5=broker.profile.is_5_5,
    )  # fmt: skip
    body = {"dataVersion": version, "forbiddenTable": table.forbidden_table(part), "subscriptionGroupTable": part}
    return ok_json(body, totalGroupNum=len(table.groups))
