"""GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: non-unit topics that units subscribe to (getHasUnitSubUnUnitTopicList)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok_json
from rmqctl.sandbox.topics.table import UNIT, UNIT_SUBSCRIBED


def handle(name_server: NameServer, _: Request) -> Command:
    """Return the list."""
    return ok_json({"topicList": name_server.unit_topics(wanted=UNIT_SUBSCRIBED, unwanted=UNIT)})
