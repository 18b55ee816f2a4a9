"""A real RocketMQ cluster on loopback: one name server, one or more brokers, a Java workbench on demand."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.java_json import loads
from tests.real.harness.conditions import wait_until

from ..differential.asker import Asker
from .jars import rocketmq_jars
from .name_server import NameServer
from .process import BROKER_OPENS, QUICK_START, JavaProcess, free_port, make_home
from .workbench import Workbench


class Broker:
    """One broker of a cluster; can be killed, paused and started again on the same port and store."""

    def __init__(
        self,
        version: str,
        folder: Path,
        name: str,
        namesrv: str,
        settings: Mapping[str, object],
        jvm: tuple[str, ...],
    ) -> None:
        self.version, self.folder, self.name, self._jvm = version, folder, name, jvm
        self.port = free_port(neighbours=(-2, 1))
        self.address = f"127.0.0.1:{self.port}"
        self.log_name = f"{name}-{settings.get('brokerRole', 'master')}".lower()
        store = self.store = folder / f"store-{self.log_name}"
        values = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",  # where slaves copy the messages from
            "listenPort": self.port,
            "haListenPort": free_port(),
            "namesrvAddr": namesrv,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "mappedFileSizeCommitLog": 64 * 1024 * 1024,
            "diskMaxUsedSpaceRatio": 95,
            "autoCreateTopicEnable": "true",
            # 5.4 walks its whole timer wheel at each flush: once a second costs a fifth of a core, doing nothing.
            "timerFlushIntervalMs": 30_000,
            **settings,
        }
        self.config_path = folder / f"{self.log_name}.conf"
        self.config_path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        self.java: JavaProcess | None = None

    def start(self) -> None:
        """Start the broker's JVM without waiting for it."""
        self.start_within(())

    def start_within(self, launcher: tuple[str, ...]) -> None:
        """Start it by another program, which runs java with the words behind its own."""
        self.java = JavaProcess(
            self.log_name, self.folder, f"{rocketmq_jars(self.version)}/*", "org.apache.rocketmq.broker.BrokerStartup",
            "-c", str(self.config_path), jvm=("-Xmx1g", "-XX:MaxDirectMemorySize=512m", *self._jvm, *BROKER_OPENS),
            launcher=launcher,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until the broker's port is open."""
        assert self.java is not None
        self.java.wait_for_port(self.port)

    def kill(self) -> None:
        """End the broker at once (kill -9)."""
        if self.java is not None:
            self.java.kill()


class Reachable:
    """A cluster as its clients see it: `namesrv` is its address, `addresses` are those of the masters by name."""

    namesrv: str
    addresses: dict[str, str]

    def __init__(
        self,
        version: str,
        folder: Path,
        *,
        jvm: tuple[str, ...] = QUICK_START,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        self.version, self.folder, self._jvm, self._credentials = version, folder, jvm, credentials
        self._workbench: Workbench | None = None
        make_home(folder)

    @property
    def java(self) -> Workbench:
        """The Java workbench of this cluster, started at first use."""
        if self._workbench is None:
            self._workbench = Workbench(
                self.version, self.folder, self.namesrv, jvm=self._jvm, credentials=self._credentials
            )
        return self._workbench

    def asker(self, broker_name: str) -> Asker:
        """Return who sends bare requests to the name server and one of the brokers; for the caller to close."""
        return Asker(self.namesrv, self.addresses[broker_name], version=self.version, suffix="")

    def create_topic(self, topic: str, *, queue_count: int = 4, brokers: tuple[str, ...] = (), perm: int = 6) -> None:
        """Create or change a topic on the named brokers (all by default), and wait until the name server lists them."""
        for name in brokers or tuple(self.addresses):
            self._update_topic(name, topic, queue_count, perm)
        self.wait_for_route(topic, len(brokers or self.addresses))

    def wait_for_route(self, topic: str, broker_count: int) -> None:
        """Wait until the name server's route of a topic names this many brokers."""
        wait_until(lambda: self._route_size(topic) >= broker_count, why=lambda: f"no full route of {topic}")

    # Without mqadmin, whose end can take 3 s.

    def _update_topic(self, broker_name: str, topic: str, queue_count: int, perm: int) -> None:
        with closing(self.asker(broker_name)) as asker:
            answer = asker(
                "broker", RequestCode.UPDATE_AND_CREATE_TOPIC, topic=topic, defaultTopic="TBW102", perm=perm,
                readQueueNums=queue_count, writeQueueNums=queue_count, topicFilterType="SINGLE_TAG", topicSysFlag=0,
                order=False,
            )  # fmt: skip
        if answer is None or answer.code != 0:
            raise RuntimeError(f"create {topic} on {broker_name}: {answer}")

    def _route_size(self, topic: str) -> int:
        """Return how many brokers the route of a topic has."""
        with closing(self.asker(next(iter(self.addresses)))) as asker:
            answer = asker("namesrv", RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        return len(loads(answer.body)["queueDatas"]) if answer is not None and answer.code == 0 else 0

    def close_java(self) -> None:
        """End the workbench; the next use starts another."""
        if self._workbench is not None:
            self._workbench.close()
            self._workbench = None


class Cluster(Reachable):
    """A running cluster; `brokers` are the masters by name."""

    def __init__(
        self,
        version: str,
        folder: Path,
        *,
        broker_count: int = 1,
        with_slaves: bool = False,
        settings: Mapping[str, object] | None = None,
        jvm: tuple[str, ...] = QUICK_START,
        conf: Mapping[str, str] | None = None,
        credentials: tuple[str, str] | None = None,
        more_name_servers: Mapping[str, str] | None = None,
        broker_type: type[Broker] = Broker,
    ) -> None:
        """`conf` are files for ROCKETMQ_HOME/conf, `credentials` (access key, secret key) are what Java signs with.

        `more_name_servers` are addresses by broker name, of those that register with another name server as well.
        """
        super().__init__(version, folder, jvm=jvm, credentials=credentials)
        for name, text in (conf or {}).items():
            (folder / "conf" / name).write_text(text)
        self.name_server = NameServer(version, folder, jvm=jvm).start()
        self.namesrv_port, self.namesrv = self.name_server.port, self.name_server.address
        names = [f"broker-{chr(ord('a') + number)}" for number in range(broker_count)]
        more = more_name_servers or {}
        servers = {name: f"{self.namesrv};{more[name]}" if name in more else self.namesrv for name in names}
        self.brokers = {name: broker_type(version, folder, name, servers[name], settings or {}, jvm) for name in names}
        slave = {**(settings or {}), "brokerId": 1, "brokerRole": "SLAVE"}
        self.slaves = {
            name: broker_type(version, folder, name, servers[name], slave, jvm)
            for name in (names if with_slaves else ())
        }
        self.addresses = {name: broker.address for name, broker in self.brokers.items()}
        for broker in self.all_brokers():
            broker.start()

    @property
    def namesrv_java(self) -> JavaProcess:
        """The name server's process."""
        assert self.name_server.java is not None
        return self.name_server.java

    def _can_tell(self, broker: Broker) -> bool:
        """Tell whether a broker says how it runs; 4.9's answer with an exception in their first second."""
        if self.version != "4.9.7" or self._credentials is not None:
            return True
        return "bootTimestamp" in self.java.mqadmin("brokerStatus", "-b", broker.address)

    def wait(self) -> Cluster:
        """Wait until every broker answers and is registered at the name server."""
        self.name_server.wait()
        for broker in self.all_brokers():
            broker.wait()
        give_up_at = time.monotonic() + 60
        while not all(
            broker.address in self.java.mqadmin("clusterList") and self._can_tell(broker)
            for broker in self.all_brokers()
        ):
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"not all brokers registered at {self.namesrv}")
            time.sleep(0.1)
        return self

    def all_brokers(self) -> list[Broker]:
        """Return masters and slaves."""
        return [*self.brokers.values(), *self.slaves.values()]

    def stop(self) -> None:
        """End every process of this cluster."""
        self.close_java()
        for broker in self.all_brokers():
            broker.kill()
        self.name_server.kill()
