"""GET_ALL_TOPIC_CONFIG: all topics of a broker, since 5.x in pages (AdminBrokerProcessor.getAllTopicConfig)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.data_version import NEVER_CHANGED
from rmqctl.sandbox.request import Request, ok_json

from .table_pages import page


def handle(broker: Broker, request: Request) -> Command:
    """Return them; the tables of static topics are always empty."""
    table = broker.topics
    body = {"dataVersion": table.version.to_wire(broker.profile)}
    if not broker.profile.is_5:
        topics = {name: topic.to_wire(with_attributes=False) for name, topic in table.topics.items()}
        return ok_json({**body, "topicConfigTable": topics})
    part = page(
        request, table.topics, table.version, seq_field="topicSeq", count_field="maxTopicNum",
        default_count=broker.settings.number("splitMetadataSize"), is_5_5=broker.profile.is_5_5,
    )  # fmt: skip
    mapping = {"mappingDataVersion": NEVER_CHANGED, "topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {}}
    topics = {name: topic.to_wire() for name, topic in part.items()}
    return ok_json({**body, **mapping, "topicConfigTable": topics}, totalTopicNum=len(table.topics))
