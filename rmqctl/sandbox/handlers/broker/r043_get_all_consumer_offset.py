"""GET_ALL_CONSUMER_OFFSET: all stored offsets (AdminBrokerProcessor.getAllConsumerOffset)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, _: Request) -> Command:
    """Return the table by topic@group; 5.x adds the topics of each group, and 5.5 the pull offsets."""
    offsets = broker.offsets
    body: dict[str, Any] = {"offsetTable": _by_name(offsets.stored)}
    if broker.profile.is_5:
        body["dataVersion"] = offsets.version.to_wire(broker.profile)
        body["groupTopicMap"] = offsets.topics_by_group()
    if broker.profile.is_5_5:
        body["pullOffsetTable"] = _by_name(offsets.pulled)
    return ok_json(body)


def _by_name(table: Mapping[tuple[str, str], dict[int, int]]) -> dict[str, dict[int, int]]:
    return {f"{topic}@{group}": queues for (topic, group), queues in table.items()}
