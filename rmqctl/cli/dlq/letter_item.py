"""Dead letters as items of JSON and rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rmqctl.cli.output.body import BodyStyle, excerpt
from rmqctl.cli.output.listing import Column
from rmqctl.cli.output.message_item import MESSAGE_COLUMNS, message_item
from rmqctl.model.names import DLQ_PREFIX
from rmqctl.rules.dead_letters import given_up, origin_message_id, origin_topic

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_reading import Letter


def letter_item(letter: Letter, style: BodyStyle) -> dict[str, Any]:
    """Return one dead letter as a JSON item: the message, its origin, and why it was given up."""
    item = {"group": letter.found.mq.topic.removeprefix(DLQ_PREFIX), **message_item(letter.found, style)}
    origin = origin_fields(letter.message.reconsume_times, letter.properties)
    item["reasons"] |= {key: "NOT_SET" for key, value in origin.items() if value is None}
    return item | origin


def origin_fields(reconsume_times: int, properties: Mapping[str, str]) -> dict[str, str | None]:
    """Return the keys for the origin of a dead letter and the reason why it was given up."""
    return {
        "originTopic": origin_topic(properties),
        "originMessageId": origin_message_id(properties),
        "givenUp": given_up(reconsume_times, properties),
    }


_SHOWN = {column.key: column for column in MESSAGE_COLUMNS}
COLUMNS = (
    replace(_SHOWN["storeTimestamp"], gives_way=3),
    Column("TOPIC", "originTopic"),
    Column("RECONSUMED", "reconsumeTimes", is_number=True, gives_way=2),
    Column("GIVEN-UP", "givenUp", is_wide=True),
    Column("BROKER", "brokerName", is_wide=True),
    Column("Q", "queueId", is_number=True, is_wide=True),
    Column("OFFSET", "queueOffset", is_number=True, is_wide=True),
    _SHOWN["tags"],
    _SHOWN["keys"],
    Column("MSG-ID", "msgId", is_id=True),
    Column("BORN", "bornTimestamp", is_time=True, is_wide=True),
    Column("BORN-HOST", "bornHost", is_wide=True),
    Column("SIZE", "bodySize", is_number=True, gives_way=1),
    Column("BODY", "body", show=excerpt, is_alarm=lambda item: item["bodyCrcOk"] is False),
)
