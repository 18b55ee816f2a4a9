"""A scripted group: a name server, brokers that note who heartbeats and list the group's members as they are told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rmqctl.client.core import Client
from rmqctl.client.link import Handler
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.scripted_peer import ScriptedNetwork, ScriptedServer, ok, refused

OWN_ID = "c1"


class BrokerOfGroup:
    """One broker name with one address a replica. `ids` is what it answers to "who is in the group"."""

    def __init__(self, group: ScriptedGroup, name: str, replica_count: int) -> None:
        self.name = name
        self.ids: list[str] = []
        self.skew_ms = 0
        self.addresses = {number: f"{name}-{number}:1" for number in range(replica_count)}
        self.servers: dict[int, ScriptedServer] = {
            number: group.network.add(
                address,
                {
                    Q.HEART_BEAT: ok(),
                    Q.UNREGISTER_CLIENT: ok(),
                    Q.GET_CONSUMER_LIST_BY_GROUP: self._members,
                    Q.QUERY_CONSUME_TIME_SPAN: self._time,
                },
            )
            for number, address in self.addresses.items()
        }
        self._clock = group.clock

    @property
    def master(self) -> ScriptedServer:
        return self.servers[0]

    def heartbeats(self) -> list[Any]:
        """Return the bodies of all heartbeats that the master got."""
        return [json.loads(each.body) for each in self.master.asked if each.code == Q.HEART_BEAT]

    def versions(self) -> list[dict[str, int]]:
        """Return the versions of the topics in each heartbeat."""
        return [
            {item["topic"]: item["subVersion"] for item in body["consumerDataSet"][0]["subscriptionDataSet"]}
            for body in self.heartbeats()
        ]

    def _members(self, request: Command) -> Command:
        if not self.ids:
            return refused(R.SYSTEM_ERROR, f"no consumer for this group, {request.ext_fields['consumerGroup']}")
        return ok(json.dumps({"consumerIdList": self.ids}).encode())

    def _time(self, request: Command) -> Command:
        mq = {"brokerName": self.name, "queueId": 0, "topic": request.ext_fields["topic"]}
        now_ms = self._clock.now_ms() + self.skew_ms
        return ok(json.dumps({"consumeTimeSpanSet": [{"delayTime": now_ms + 1, "messageQueue": mq}]}).encode())


class ScriptedGroup:
    """Brokers broker-a, broker-b, ...; `topics` are the numbers of queues that each broker of a topic has."""

    def __init__(self, broker_count: int = 1, *, replica_count: int = 1) -> None:
        self.clock = VirtualClock()
        self.network = ScriptedNetwork(self.clock)
        self.brokers = [
            BrokerOfGroup(self, f"broker-{chr(ord('a') + number)}", replica_count) for number in range(broker_count)
        ]
        self.topics: dict[str, int] = {"T": 8, "%RETRY%G": 1}
        self.name_server = self.network.add("ns:1", {Q.GET_ROUTEINFO_BY_TOPIC: self._route})

    def set_ids(self, *ids: str) -> None:
        """Have all brokers list these members."""
        for broker in self.brokers:
            broker.ids = list(ids)

    def client(self, handlers: dict[int, Handler] | None = None) -> Client:
        """Return a client that stays for as long as it likes; one attempt takes 3 s."""
        return Client(
            ["ns:1"], timeout_s=9.0, clock=self.clock, connect=self.network.connect, handlers=handlers, open_ended=True
        )

    def asked_routes(self) -> list[str]:
        """Return the topics whose routes were asked for, in order."""
        return [request.ext_fields["topic"] for request in self.name_server.asked]

    def _route(self, request: Command) -> Command:
        topic = request.ext_fields["topic"]
        if topic not in self.topics:
            return refused(R.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}")
        count = self.topics[topic]
        return ok(json.dumps({"brokerDatas": self._places(), "queueDatas": self._queues(count)}).encode())

    def _places(self) -> Sequence[Any]:
        return [{"brokerAddrs": broker.addresses, "brokerName": broker.name, "cluster": "C"} for broker in self.brokers]

    def _queues(self, count: int) -> Sequence[Any]:
        return [
            {"brokerName": broker.name, "perm": 6, "readQueueNums": count, "writeQueueNums": count}
            for broker in self.brokers
        ]
