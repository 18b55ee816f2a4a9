"""A RocketMQ 5 proxy in front of a cluster (cluster mode), and consumers of the gRPC client behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .cluster import Cluster
from .jars import proxy_helper_classes, proxy_jars
from .process import BROKER_OPENS, QUICK_START, JavaProcess, free_port
from .workbench import LineDriver, Workbench

_CLIENT_JAR = "rocketmq-client-java-"


class Proxy:
    """A running proxy in front of `cluster`: `address` is its remoting port; `consumers` are at its gRPC port."""

    def __init__(self, cluster: Cluster, *, settings: dict[str, object] | None = None) -> None:
        self.cluster, self._version = cluster, cluster.version
        self._folder = cluster.folder / "proxy"
        (self._folder / "conf").mkdir(parents=True)
        self.port, self.grpc_port = free_port(), free_port()
        self.address, self.grpc_address = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.grpc_port}"
        config = self._folder / "conf" / "rmq-proxy.json"
        values = {
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": cluster.namesrv,
            "proxyMode": "cluster",
            "proxyName": "proxy-of-the-tests",
            "localServeAddr": "127.0.0.1",
            "remotingListenPort": self.port,
            "grpcServerPort": self.grpc_port,
            **(settings or {}),
        }
        config.write_text(json.dumps(values))
        # The gRPC client's jar holds its own copies of the proxy's classes, moved to other packages in part.
        servers = (jar for jar in proxy_jars(self._version).glob("*.jar") if not jar.name.startswith(_CLIENT_JAR))
        self.java = JavaProcess(
            "proxy", self._folder, ":".join(map(str, servers)), "org.apache.rocketmq.proxy.ProxyStartup",
            "-pc", str(config), jvm=("-Xmx768m", "-XX:MaxDirectMemorySize=256m", *QUICK_START, *BROKER_OPENS),
        )  # fmt: skip
        self._consumers: GrpcConsumers | None = None
        self._remoting_clients: Workbench | None = None

    def wait(self) -> Proxy:
        """Wait until both ports are open; a proxy opens them when it has found a broker for its own topic."""
        for port in (self.port, self.grpc_port):
            self.java.wait_for_port(port)
        return self

    @property
    def consumers(self) -> GrpcConsumers:
        """The gRPC consumers' JVM."""
        if self._consumers is None:
            self._consumers = GrpcConsumers(self._version, self._folder, self.grpc_address)
        return self._consumers

    @property
    def remoting_clients(self) -> Workbench:
        """Java clients of the remoting protocol that take the proxy for their name server."""
        if self._remoting_clients is None:
            self._remoting_clients = Workbench(self._version, self._folder, self.address, jvm=QUICK_START)
        return self._remoting_clients

    def stop(self) -> None:
        """End the clients and the proxy."""
        if self._remoting_clients is not None:
            self._remoting_clients.close()
        if self._consumers is not None:
            self._consumers.close()
        self.java.kill()


@contextmanager
def behind_a_proxy(cluster: Cluster) -> Iterator[Proxy]:
    """Wait for a cluster and run a proxy in front of it; both end with the block."""
    try:
        running = Proxy(cluster.wait())
        try:
            yield running.wait()
        finally:
            running.stop()
    finally:
        cluster.stop()


class GrpcConsumers(LineDriver):
    """Push consumers of the official gRPC client, all in one JVM."""

    def __init__(self, version: str, home: Path, grpc_address: str) -> None:
        (client_jar,) = proxy_jars(version).glob(f"{_CLIENT_JAR}*.jar")
        classpath = f"{proxy_helper_classes(version)}:{client_jar}"
        super().__init__(
            JavaProcess(
                "grpc-consumers", home, classpath, "GrpcConsumers", grpc_address,
                jvm=("-Xmx256m", *QUICK_START), pipe=True,
            )
        )  # fmt: skip

    def consume(self, consumer_id: str, group: str, topic: str, **options: object) -> None:
        """Start a push consumer (expr, fail) of a topic that has messages of type NORMAL."""
        self.call("consume", id=consumer_id, group=group, topic=topic, **options)

    def consume_lite(self, consumer_id: str, group: str, topic: str, names: str) -> None:
        """Start a consumer of these lite topics of a parent topic to which its group is bound."""
        self.call("consume-lite", id=consumer_id, group=group, topic=topic, lite=names)

    def produce_lite(self, topic: str, name: str, count: int) -> None:
        """Send so many messages to one lite topic."""
        self.call("produce-lite", topic=topic, lite=name, count=count)

    def stop(self, consumer_id: str) -> None:
        """Shut a consumer down, which takes up to 20 s: it waits for its long poll."""
        super().stop(consumer_id)
