"""The name server: the registered brokers and the topics of each (RouteInfoManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rmqctl.net.clock import Clock
from rmqctl.protocol.flags import Permission
from rmqctl.sandbox.faults.faults import Faults
from rmqctl.sandbox.topics.table import READ_WRITE, Topic

from .channel import Channel
from .periodic import Periodic
from .profile import Profile
from .server import Handler, Server
from .settings import name_server_settings

MASTER_ID = 0
ORDER_CONFIG = "ORDER_TOPIC_CONFIG"

# RouteInfoManager.DEFAULT_BROKER_CHANNEL_EXPIRED_TIME.
EXPIRED_S = 120.0
_SCAN_S_4 = 10.0

_Address = tuple[str, str]


class Registration(Struct, frozen=True):
    """What a broker reports about itself. `version` is its topics' DataVersion, which reveals changes.

    `channel` is the connection that it arrived on, None for the sandbox's own brokers, which never expire.
    `is_acting_known` is true when it states whether slaves may act as masters, as brokers do since 5.0.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    topics: Mapping[str, Topic]
    version: dict[str, int]
    ha_address: str = ""
    timeout_s: float = EXPIRED_S
    channel: Channel | None = None
    is_acting_known: bool = False


class RegisteredBroker(Struct):
    """One broker name: the addresses of its replicas by broker id, and its topics."""

    cluster: str
    name: str
    addresses: dict[int, str] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)


class _Live(Struct):
    """One address that sends heartbeats (BrokerLiveInfo)."""

    version: dict[str, int]
    heard_at_s: float
    timeout_s: float
    ha_address: str
    channel: Channel | None


class NameServer:
    """The sandbox's name server. Brokers of the sandbox register without a connection; others with REGISTER_BROKER."""

    name = "namesrv"

    def __init__(self, clock: Clock, profile: Profile, faults: Faults, handlers: Mapping[int, Handler]) -> None:
        self.clock = clock
        self.profile = profile
        self.brokers: dict[str, RegisteredBroker] = {}
        self.key_values: dict[str, dict[str, str]] = {}
        self.settings = name_server_settings(profile, clock.now_ms)
        self._live: dict[_Address, _Live] = {}
        self._scan: Periodic | None = None
        self.server = Server(self.name, self, clock, profile.version, handlers, faults)
        self.server.on_close = self._forget
        faults.watch(self.name, self.server.review)
        # 4.9's name server has no branch for codes that it does not know.
        self.server.is_silent_on_unknown_codes = not profile.is_5

    async def start(self, host: str, port: int) -> None:
        """Listen, and start to drop brokers that are silent for too long. Raises UnreachableError."""
        await self.server.open(host, port)
        self.settings.update({"listenPort": self.address.rpartition(":")[2]})
        interval_s = self.settings.number("scanNotActiveBrokerInterval") / 1000 if self.profile.is_5 else _SCAN_S_4
        self._scan = Periodic(self.clock, interval_s, self._drop_expired)

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._scan is not None:
            self._scan.stop()
        await self.server.aclose()

    @property
    def address(self) -> str:
        """The address it listens on, as host:port."""
        return self.server.address

    def keep_alive(self, seconds: float) -> None:
        """Count a jump of the clock as time in which brokers and clients sent heartbeats."""
        self.server.keep_alive(seconds)
        for live in self._live.values():
            live.heard_at_s += seconds

    def register(self, registration: Registration) -> bool:
        """Register a broker; return whether it was accepted.

        Topics are added and changed; a topic that the broker no longer lists stays. The topics of slaves are ignored,
        except, since 5.0, for the slave with the lowest id of its broker name. 5.x rejects an unknown replica that
        has exactly one topic: its broker name remains, without an address.
        """
        broker_name, broker_id = registration.broker_name, registration.broker_id
        entry = self.brokers.get(broker_name)
        is_first = entry is None
        if entry is None:
            entry = self.brokers[broker_name] = RegisteredBroker(registration.cluster, broker_name)
        entry.addresses = {
            number: address for number, address in entry.addresses.items()
            if address != registration.address or number == broker_id
        }  # fmt: skip
        is_first |= broker_id not in entry.addresses
        if self.profile.is_5 and broker_id not in entry.addresses and len(registration.topics) == 1:
            return False
        entry.addresses[broker_id] = registration.address
        if broker_id == MASTER_ID or (registration.is_acting_known and broker_id == min(entry.addresses)):
            is_changed = is_first or self.has_changed(registration.cluster, registration.address, registration.version)
            for name, topic in registration.topics.items():
                if is_changed or (self.profile.is_5 and name not in entry.topics):
                    entry.topics[name] = topic
        self._live[registration.cluster, registration.address] = _Live(
            registration.version,
            self.clock.monotonic_s(),
            registration.timeout_s,
            registration.ha_address,
            registration.channel,
        )
        return True

    def unregister(self, cluster: str, address: str) -> None:
        """Forget an address; with the last address of a broker name, forget its topics too."""
        self._live.pop((cluster, address), None)
        for entry in list(self.brokers.values()):
            left = {number: each for number, each in entry.addresses.items() if each != address}
            if entry.cluster == cluster and left != entry.addresses:
                entry.addresses = left
                if not left:
                    del self.brokers[entry.name]

    def has_changed(self, cluster: str, address: str, version: Mapping[str, int]) -> bool:
        """Return whether the version of a broker's topics differs from its last registration."""
        return self.version_of(cluster, address) != version

    def version_of(self, cluster: str, address: str) -> dict[str, int] | None:
        """Return the version of the topics that an address last registered, or None for an unknown address."""
        live = self._live.get((cluster, address))
        return None if live is None else live.version

    def touch(self, cluster: str, address: str) -> None:
        """Note a heartbeat of a broker."""
        live = self._live.get((cluster, address))
        if live is not None:
            live.heard_at_s = self.clock.monotonic_s()

    def master_of(self, registration: Registration) -> tuple[str, str] | None:
        """Return the HA address and the address of a slave's master, or None when there is no master."""
        address = self.brokers[registration.broker_name].addresses.get(MASTER_ID)
        live = None if address is None else self._live.get((registration.cluster, address))
        if registration.broker_id == MASTER_ID or address is None or live is None:
            return None
        return live.ha_address, address

    def _drop_expired(self) -> None:
        now_s = self.clock.monotonic_s()
        for live in list(self._live.values()):
            if live.channel is not None and now_s - live.heard_at_s > live.timeout_s:
                self.server.give_up(live.channel)

    def _forget(self, channel: Channel) -> None:
        for cluster, address in [key for key, live in self._live.items() if live.channel is channel]:
            self.unregister(cluster, address)

    def route(self, topic: str) -> dict[str, Any] | None:
        """Return a topic's route as JSON data (TopicRouteData), or None when no broker has the topic."""
        entries = [entry for entry in self.brokers.values() if topic in entry.topics]
        if not entries:
            return None
        route: dict[str, Any] = {
            "brokerDatas": [self.broker_data(entry) for entry in entries],
            "filterServerTable": {},
            "queueDatas": [_queue_data(entry, entry.topics[topic]) for entry in entries],
        }
        order = self.key_values.get(ORDER_CONFIG, {}).get(topic)
        if order is not None and self.settings.flag("orderMessageEnable"):
            route["orderTopicConf"] = order
        return route

    def broker_data(self, entry: RegisteredBroker) -> dict[str, Any]:
        """Return a broker as JSON data (BrokerData)."""
        data: dict[str, Any] = {
            "brokerAddrs": dict(entry.addresses), "brokerName": entry.name, "cluster": entry.cluster
        }  # fmt: skip
        return {**data, "enableActingMaster": False} if self.profile.is_5 else data

    def topic_names(self, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, or of one cluster's topics, sorted."""
        entries = self._entries(cluster)
        return sorted({topic for entry in entries for topic in entry.topics})

    def unit_topics(self, *, wanted: int, unwanted: int = 0) -> list[str]:
        """Return the topics whose topicSysFlag, at the first broker, has a `wanted` bit and no `unwanted` bit."""
        first: dict[str, Topic] = {}
        for entry in self.brokers.values():
            first = {**entry.topics, **first}
        return sorted(
            name for name, topic in first.items() if topic.sys_flag & wanted and not topic.sys_flag & unwanted
        )

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Forget a topic, at the brokers of one cluster or of all."""
        for entry in self._entries(cluster):
            entry.topics.pop(topic, None)

    def add_topic(self, topic: str, queues: Iterable[Mapping[str, Any]]) -> None:
        """Register a topic's queues at some brokers; stop at an unknown broker (registerTopic)."""
        given = [(str(queue["brokerName"]), queue) for queue in queues]
        is_new = all(topic not in entry.topics for entry in self.brokers.values())
        if is_new and any(name not in self.brokers for name, _ in given):
            return
        for name, queue in given:
            if name not in self.brokers:
                return
            self.brokers[name].topics[topic] = Topic(
                topic, int(queue.get("readQueueNums", 0)), int(queue.get("writeQueueNums", 0)),
                int(queue.get("perm", 0)), sys_flag=int(queue.get("topicSysFlag", 0)),
            )  # fmt: skip

    def _entries(self, cluster: str | None) -> list[RegisteredBroker]:
        return [entry for entry in self.brokers.values() if cluster in (None, entry.cluster)]

    def set_write_permission(self, broker_name: str, *, is_writable: bool) -> int:
        """Set or clear the write bit of all topics of a broker here; return how many topics it has.

        It lasts until the broker registers with a new version. Setting it sets read as well.
        """
        entry = self.brokers.get(broker_name)
        if entry is None:
            return 0
        for name, topic in entry.topics.items():
            perm = READ_WRITE if is_writable else topic.perm & ~Permission.WRITE
            entry.topics[name] = replace(topic, perm=perm)
        return len(entry.topics)


def _queue_data(entry: RegisteredBroker, topic: Topic) -> dict[str, Any]:
    return {
        "brokerName": entry.name, "perm": topic.perm, "readQueueNums": topic.read_queue_count,
        "topicSysFlag": topic.sys_flag, "writeQueueNums": topic.write_queue_count,
    }  # fmt: skip
