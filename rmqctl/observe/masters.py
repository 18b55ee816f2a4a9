"""Asks the masters of brokers at a bounded rate.

Only masters are asked: a slave's copy of offsets can be 10 s old, which would look like an offset that went back.
"""

from __future__ import annotations

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command

from .pace import Pace


class PacedMasters:
    """Sends requests to masters, each when it is its turn."""

    def __init__(self, client: Client, pace: Pace) -> None:
        self.client = client
        self.pace = pace

    async def ask(self, broker: BrokerData, command: Command) -> Command:
        """Return the answer of a broker's master. Raises the errors of Client.require_master() and Client.ask()."""
        address = self.client.require_master(broker)
        await self.pace.turn(broker.broker_name)
        return await self.client.ask(address, command)

    async def topic_offsets(self, broker: BrokerData, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Return the min and max offsets of a topic's queues, none if the broker does not have it. Raises as ask()."""
        try:
            answer = await self.ask(broker, headers.get_topic_stats(topic))
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return {}
            raise
        return bodies.decode_topic_stats(answer.version, answer.body)
