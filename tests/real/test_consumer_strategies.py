"""`consume run` with the strategies that are told something, beside Java's members that share by the same ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Broker, Cluster
from .harness.consumer import OurConsumer, OurConsumers, our_consumers
from .harness.jars import VERSIONS
from .harness.process import QUICK_START
from .harness.rmqctl import Rmqctl

pytestmark = pytest.mark.timeout(120)

_PLUGIN = '''
from rmqctl.plugin import hookimpl

@hookimpl
def rmqctl_site_resolvers():
    return {"by-sign": by_sign}

def by_sign(kind, name):
    return name.rpartition("-")[2] if kind == "broker" else name.split("@")[1].rpartition(".")[2]

@hookimpl
def rmqctl_strategies():
    return {"by-turns": by_turns}

def by_turns(queues, client_ids, options):
    """Give each client every so many-th queue, from the end."""
    order = list(reversed(queues))
    return {client_id: order[index :: len(client_ids)] for index, client_id in enumerate(client_ids)}
'''


class _Members:
    """Members of one group by name, and what each is given."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster, self._group = cluster, group
        self._java: list[str] = []
        self._ours: list[OurConsumer] = []
        self._round = 0

    def java(self, name: str, strategy: str, **options: object) -> None:
        self._cluster.java.consume(
            f"{self._group}-{name}", self._group, self._group, collect=1, heartbeat=1000, strategy=strategy,
            **{"instance": name, **options},
        )  # fmt: skip
        self._java.append(name)

    def ours(self, made: OurConsumers, name: str, *words: str) -> None:
        self._ours.append(made(name, self._group, self._group, "--instance", name, *words))

    def stop(self) -> None:
        for name in self._java:
            self._cluster.java.stop(f"{self._group}-{name}")
        for each in self._ours:
            assert each.terminate() == 0, each.said

    def _given(self) -> dict[str, list[str]]:
        """Send a message to each queue; return from which queues each member got it, once all have come."""
        self._round += 1
        mark = f"r{self._round}-"
        for queue in self.queues:
            self._cluster.java.produce(self._group, 1, prefix=f"{mark}{queue}-", queue=queue)
        found: dict[str, list[str]] = {}

        def look() -> bool:
            found.clear()
            for name in self._java:
                attempts = self._cluster.java.attempts(f"{self._group}-{name}")
                found[name] = sorted(each.queue for each in attempts if each.body.startswith(mark))
            for made in self._ours:
                found[made.name] = sorted(each.queue for each in made.heard("BEGAN") if each.body.startswith(mark))
            return {queue for given in found.values() for queue in given} == set(self.queues)

        wait_until(look)
        time.sleep(0.5)  # for what comes twice
        look()
        return found

    @property
    def queues(self) -> list[str]:
        return [f"{name}:{number}" for name in self._cluster.addresses for number in range(4)]

    def settle(self, expected: dict[str, list[str]]) -> None:
        """Wait until each queue goes to one member as it should, and see that it stays so."""
        assert sorted(queue for given in expected.values() for queue in given) == sorted(self.queues)
        wait_until(lambda: self._given() == expected, 30, lambda: (expected, self._given()))
        for _ in range(3):
            assert self._given() == expected


def _all_of(*broker_names: str) -> list[str]:
    return [f"{name}:{number}" for name in broker_names for number in range(4)]


@pytest.fixture
def ours(cluster: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    (tmp_path / "sharing.py").write_text(_PLUGIN)
    with our_consumers(cluster.namesrv, tmp_path / "ours") as made:
        yield made


def _shown(rmqctl: Rmqctl, group: str) -> set[object]:
    return {item["strategy"] for item in rmqctl.items("group", "members", group)}


def test_machine_room_nearby_beside_java(cluster: Cluster, ours: OurConsumers, tmp_path: Path, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Nearby", queue_count=4)
    members = _Members(cluster, "Nearby")
    words = ("--strategy", "machine-room-nearby", "--site-of", "by-sign", "--plugin", str(tmp_path / "sharing.py"))
    members.java("java.a", "AllocateMachineRoomNearby")
    members.ours(ours, "ours1.b", *words)
    members.settle({"java.a": _all_of("broker-a"), "ours1.b": _all_of("broker-b")})
    # Another one in a room shares that room alone: java.a sorts before ours2.a.
    members.ours(ours, "ours2.a", *words)
    members.settle(
        {
            "java.a": ["broker-a:0", "broker-a:1"], "ours2.a": ["broker-a:2", "broker-a:3"],
            "ours1.b": _all_of("broker-b"),
        }
    )  # fmt: skip
    assert _shown(rmqctl, "Nearby") == {"machine-room-nearby"}
    members.stop()


@pytest.mark.since_5
def test_by_configuration_beside_java(cluster: Cluster, ours: OurConsumers, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Configured", queue_count=4)
    members = _Members(cluster, "Configured")
    members.java("java", "AllocateMessageQueueByConfig", queues="broker-a:0,broker-a:1,broker-b:3")
    members.ours(
        ours, "ours", "--strategy", "config", "--queue", "broker-a:2-3", "--queue", "broker-b:0-2"
    )  # fmt: skip
    members.settle(
        {
            "java": ["broker-a:0", "broker-a:1", "broker-b:3"],
            "ours": ["broker-a:2", "broker-a:3", "broker-b:0", "broker-b:1", "broker-b:2"],
        }
    )
    assert _shown(rmqctl, "Configured") == {"config"}
    members.stop()


@pytest.mark.since_5
def test_a_plugins_strategy_with_two_of_ours(
    cluster: Cluster, ours: OurConsumers, tmp_path: Path, rmqctl: Rmqctl
) -> None:
    cluster.create_topic("ByTurns", queue_count=4)
    members = _Members(cluster, "ByTurns")
    for name in ("ours1", "ours2"):
        members.ours(ours, name, "--strategy", "by-turns", "--plugin", str(tmp_path / "sharing.py"))
    ends, others = (1, 3), (0, 2)
    members.settle(
        {
            "ours1": sorted(f"{name}:{number}" for name in cluster.addresses for number in ends),
            "ours2": sorted(f"{name}:{number}" for name in cluster.addresses for number in others),
        }
    )
    assert _shown(rmqctl, "ByTurns") == {"by-turns"}
    members.stop()


@pytest.fixture(scope="module", params=VERSIONS)
def roomed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster of one broker, whose name tells its room."""
    running = Cluster(request.param, tmp_path_factory.mktemp(f"roomed-{request.param}") / "home", broker_count=0)
    name = "east@broker-a"
    broker = Broker(running.version, running.folder, name, running.namesrv, {}, QUICK_START)
    running.brokers[name], running.addresses[name] = broker, broker.address
    try:
        broker.start()
        yield running.wait()
    finally:
        running.stop()


def test_machine_room_beside_java(roomed: Cluster, tmp_path: Path) -> None:
    roomed.create_topic("Roomed", queue_count=4)
    members = _Members(roomed, "Roomed")
    with our_consumers(roomed.namesrv, tmp_path / "ours") as ours:
        missing = ours("lost", "Roomed", "Roomed", "--strategy", "machine-room", "--room", "west", joins=False)
        assert missing.process.wait(20) == 5
        assert "Room west has no queues" in missing.said
        members.java("java", "AllocateMessageQueueByMachineRoom", rooms="east,west")
        members.ours(ours, "ours", "--strategy", "machine-room", "--room", "east")
        members.settle({
            "java": ["east@broker-a:0", "east@broker-a:1"], "ours": ["east@broker-a:2", "east@broker-a:3"],
        })  # fmt: skip
        assert _shown(Rmqctl(roomed.namesrv), "Roomed") == {"machine-room"}
        members.stop()
