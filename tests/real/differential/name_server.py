"""The name server: key-value tables, brokers that come and go, routes, settings."""

from __future__ import annotations

import json
import struct
import time
import zlib
from typing import Any

from rmqctl.protocol.command import Command

from .asker import Asker

PUT, GET, DELETE, LIST = 100, 101, 102, 219
REGISTER, UNREGISTER, ROUTE, CLUSTERS, WIPE, ADD_WRITE = 103, 104, 105, 106, 205, 327
# Older than any real table, so that both servers see the same.
VERSION_MS = 1_600_000_000_000


def script_key_values(ask: Asker) -> None:
    """Keys are put, read, listed and deleted; what is missing has its own answers."""
    space = ask.name("AN")
    ask("namesrv", PUT, namespace=space, key="k", value="v")
    ask("namesrv", PUT, namespace=space, key="k", value="v2 é")
    ask("namesrv", PUT, namespace=space, value="v")
    ask("namesrv", PUT, key="k", value="v")
    ask("namesrv", GET, namespace=space, key="k")
    ask("namesrv", GET, namespace=space, key="none")
    ask("namesrv", GET, namespace=ask.name("ANone"), key="none")
    ask("namesrv", GET)
    ask("namesrv", LIST, namespace=space)
    ask("namesrv", LIST, namespace=ask.name("ANone"))
    ask("namesrv", LIST)
    ask("namesrv", DELETE, namespace=space, key="k")
    ask("namesrv", DELETE, namespace=space, key="k")
    ask("namesrv", DELETE)
    ask("namesrv", LIST, namespace=space)


def script_lists(ask: Asker) -> None:
    """What is asked without a topic's name."""
    for code in (CLUSTERS, 206, 304, 319):
        ask("namesrv", code)
    for cluster in ("DefaultCluster", ask.name("ANone")):
        ask("namesrv", 224, cluster=cluster)
    ask("namesrv", 224)
    ask("namesrv", ROUTE, topic="TBW102")
    ask("namesrv", ROUTE, topic=ask.name("ANone"))
    ask("namesrv", ROUTE)


def script_unknown_requests(ask: Asker) -> None:
    """5.x says that there is no such request, 4.9 says nothing."""
    for code in (999, 901, 904, 217):
        if code == 999 or not ask.is_5:
            ask("namesrv", code, client=f"n{code}", timeout_s=1.0)


def script_member_groups(ask: Asker) -> None:
    """GET_BROKER_MEMBER_GROUP of a broker, of none."""
    ask("namesrv", 901, clusterName="DefaultCluster", brokerName="broker-a")
    ask("namesrv", 901, clusterName="DefaultCluster", brokerName=ask.name("ANone"))
    ask("namesrv", 901)


script_member_groups.since_5 = True  # type: ignore[attr-defined]


def script_settings(ask: Asker) -> None:
    """Settings that must not be changed, and what is passed over."""
    for text in ("", "xx", "noSuchKey=1\n", "kvConfigPath=1\n", "configStorePath=1\n", "clusterTest=false\n"):
        ask("namesrv", 318, text.encode())
    if ask.is_5:
        ask("namesrv", 318, b"configBlackList=1\n")


def topic(name: str, read: int = 4, write: int = 4, perm: int = 6, flag: int = 0, **more: Any) -> dict[str, Any]:
    """Return a TopicConfig."""
    return {
        "topicName": name, "readQueueNums": read, "writeQueueNums": write, "perm": perm,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": flag, "order": False, **more,
    }  # fmt: skip


def body(counter: int, *topics: dict[str, Any]) -> bytes:
    """Return the body of a registration."""
    version = {"counter": counter, "timestamp": VERSION_MS, "stateVersion": 0}
    table = {item["topicName"]: item for item in topics}
    return json.dumps({
        "filterServerList": [], "topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table},
    }).encode()  # fmt: skip


def compressed(counter: int, *topics: str, is_5: bool) -> bytes:
    """Return the compressed body of a registration (RegisterBrokerBody.encode)."""

    def text(data: bytes) -> bytes:
        return struct.pack(">i", len(data)) + data

    version = json.dumps({"counter": counter, "timestamp": VERSION_MS, "stateVersion": 0}).encode()
    parts = [text(version), struct.pack(">i", len(topics)), *(text(each.encode()) for each in topics), text(b"[]")]
    return zlib.compress(b"".join(parts) + (struct.pack(">i", 0) if is_5 else b""))


class _Broker:
    """A broker that is only a name: its topics are told of, and nobody is at its addresses."""

    def __init__(self, ask: Asker) -> None:
        self._ask = ask
        self.name, self.cluster = ask.name("abroker"), ask.name("ACluster")

    def register(self, data: bytes, *, number: int = 0, port: int = 1, client: str = "b1", **fields: object) -> None:
        address = {"brokerAddr": f"10.0.0.1:{port}", "haServerAddr": f"10.0.0.1:9{port}"}
        self._ask(
            "namesrv", REGISTER, data, client=client, brokerName=self.name, clusterName=self.cluster, brokerId=number,
            **address, **fields,
        )  # fmt: skip

    def unregister(self, *, number: int = 0, port: int = 1, client: str = "b1") -> None:
        self._ask(
            "namesrv", UNREGISTER, client=client, brokerName=self.name, clusterName=self.cluster, brokerId=number,
            brokerAddr=f"10.0.0.1:{port}",
        )  # fmt: skip
        # 5.x does it a moment later.
        self._until(lambda answer: f"10.0.0.1:{port}".encode() not in answer.body)

    def close(self, client: str, port: int) -> None:
        self._ask._connections.pop(("namesrv", client)).socket.close()
        self._until(lambda answer: f"10.0.0.1:{port}".encode() not in answer.body)

    def _until(self, is_so: Any) -> None:
        for _ in range(200):
            answer = self._ask.connection("namesrv", "watcher").ask(Command(CLUSTERS))
            if answer is not None and is_so(answer):
                return
            time.sleep(0.01)

    def routes(self, *topics: str) -> None:
        for name in topics:
            self._ask("namesrv", ROUTE, topic=name)
        self._ask("namesrv", 224, cluster=self.cluster)


def script_registration(ask: Asker) -> None:
    """Topics come with a registration and change with its version; none of them goes by it."""
    broker = _Broker(ask)
    one, two, three = (ask.name(f"AR{number}") for number in range(3))
    broker.register(body(1, topic(one)))  # since 5.x a broker is refused that has but one
    ask("namesrv", CLUSTERS)
    broker.routes(one)
    broker.register(body(2, topic(one), topic(two, 2, 3, 7, 1)))
    broker.routes(one, two)
    broker.register(body(2, topic(three, 9, 9), topic(two, 5, 5)))
    broker.routes(two, three)
    broker.register(body(3, topic(three, 9, 8)))
    broker.routes(one, two, three)
    broker.register(body(1, topic(three, 1, 1)))
    broker.routes(three)
    broker.register(b"")
    broker.routes(three)
    for code in (311, 312, 313):
        ask("namesrv", code)
    broker.unregister()
    broker.routes(one, three)
    ask("namesrv", UNREGISTER, brokerName="x", brokerAddr="y", clusterName="z", brokerId=0)


def script_registration_forms(ask: Asker) -> None:
    """Check sums, the compressed form, bodies that are none."""
    broker = _Broker(ask)
    one, two = ask.name("AF1"), ask.name("AF2")
    plain = body(1, topic(one), topic(two))
    broker.register(plain, bodyCrc32=5)
    broker.register(plain, bodyCrc32=zlib.crc32(plain) & 0x7FFFFFFF)
    broker.routes(one)
    attributes = ' {"message.type":"FIFO"}' if ask.is_5 else ""
    packed = compressed(2, f"{one} 3 4 6 SINGLE_TAG", f"{two} 1 1 4 SINGLE_TAG{attributes}", is_5=ask.is_5)
    broker.register(packed, compressed=True, bodyCrc32=zlib.crc32(packed) & 0x7FFFFFFF)
    broker.routes(one, two)
    broker.register(packed[:-9], compressed=True)
    broker.register(b"xxxx", compressed=True)
    broker.register(b"xxxx")
    broker.register(b'{"filterServerList":[]}')
    ask("namesrv", REGISTER, plain, client="b1")
    broker.routes(one, two)
    broker.unregister()


def script_replicas(ask: Asker) -> None:
    """Slaves are told their master; a broker goes with its connection, and its topics with the last address."""
    broker = _Broker(ask)
    one, two = ask.name("AS1"), ask.name("AS2")
    topics = topic(one), topic(two)
    broker.register(body(1, *topics), number=1, port=2, client="b2")
    broker.routes(one)
    # Brokers since 5.0 say this, and their first slave is listened to.
    broker.register(body(1, *topics), number=1, port=2, client="b2", enableActingMaster=False)
    broker.routes(one)
    broker.register(body(1, *topics), number=0, port=1)
    broker.register(body(1, *topics), number=1, port=2, client="b2")
    broker.routes(one)
    ask("namesrv", CLUSTERS)
    broker.register(body(2, *topics), number=0, port=3, client="b3")  # in place of the first
    broker.routes(one)
    broker.close("b3", 3)
    broker.routes(one)
    broker.register(body(2, *topics), number=0, port=2, client="b2")  # the slave becomes the master
    broker.routes(one)
    broker.close("b2", 2)
    broker.routes(one)


def script_versions(ask: Asker) -> None:
    """QUERY_DATA_VERSION."""
    broker = _Broker(ask)
    broker.register(body(2, topic(ask.name("AV1")), topic(ask.name("AV2"))))
    known = {"brokerName": broker.name, "brokerAddr": "10.0.0.1:1", "clusterName": broker.cluster, "brokerId": 0}
    for counter in (2, 3):
        version = {"counter": counter, "timestamp": VERSION_MS, "stateVersion": 0}
        ask("namesrv", 322, version, **known)
        ask("namesrv", 322, version, **{**known, "brokerAddr": "10.0.0.1:2"})
    if ask.is_5:
        ask("namesrv", 904, **known)
        ask("namesrv", 904, brokerName="x", brokerAddr="y", clusterName="z", brokerId=0)
    broker.unregister()


def script_write_permission(ask: Asker) -> None:
    """Taken and given at the name server only, until the broker's topics have another version."""
    broker = _Broker(ask)
    one, two = ask.name("AW1"), ask.name("AW2")
    topics = topic(one, perm=7), topic(two, perm=4)
    broker.register(body(1, *topics))
    ask("namesrv", WIPE, brokerName=broker.name)
    broker.routes(one, two)
    broker.register(body(1, *topics))
    broker.routes(one)
    ask("namesrv", ADD_WRITE, brokerName=broker.name)
    broker.routes(one, two)
    ask("namesrv", WIPE, brokerName=broker.name)
    broker.register(body(2, *topics))
    broker.routes(one, two)
    for code in (WIPE, ADD_WRITE):
        ask("namesrv", code, brokerName=ask.name("ANone"))
        ask("namesrv", code)
    broker.unregister()


def script_topics(ask: Asker) -> None:
    """Topics deleted and, since 5.x, registered one by one."""
    broker = _Broker(ask)
    one, two, three = (ask.name(f"AT{number}") for number in range(3))
    broker.register(body(1, topic(one), topic(two)))
    ask("namesrv", 216, topic=one, clusterName=ask.name("ANone"))
    broker.routes(one)
    ask("namesrv", 216, topic=one, clusterName=broker.cluster)
    ask("namesrv", 216, topic=two)
    ask("namesrv", 216, topic=ask.name("ANone"))
    ask("namesrv", 216)
    broker.routes(one, two)
    broker.register(body(1, topic(one), topic(two)))  # since 5.x they come again, though the version is the same
    broker.routes(one, two)
    if ask.is_5:
        queue = {"perm": 6, "readQueueNums": 2, "writeQueueNums": 3, "topicSysFlag": 0}
        queues = [{"brokerName": broker.name, **queue}, {"brokerName": ask.name("ANone"), **queue}]
        ask("namesrv", 217, {"queueDatas": queues, "brokerDatas": []}, topic=three)
        broker.routes(three)
        ask("namesrv", 217, {"queueDatas": queues[:1], "brokerDatas": []}, topic=three)
        ask("namesrv", 217, {"queueDatas": []}, topic=three)
        ask("namesrv", 217, topic=three)
        broker.routes(three)
    broker.unregister()


def script_ordered_topics(ask: Asker) -> None:
    """A topic's order is told to brokers, to clients only where orderMessageEnable says so."""
    broker = _Broker(ask)
    one, two = ask.name("AO1"), ask.name("AO2")
    ask("namesrv", PUT, namespace="ORDER_TOPIC_CONFIG", key=one, value=f"{broker.name}:4")
    broker.register(body(1, topic(one), topic(two)))
    broker.routes(one)
    ask("namesrv", DELETE, namespace="ORDER_TOPIC_CONFIG", key=one)
    broker.unregister()
