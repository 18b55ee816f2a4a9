"""`consume run` while brokers and name servers die and come back: it goes on, and nothing is lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.consumer import OurConsumers, our_consumers
from .harness.jars import VERSIONS
from .harness.workbench import WorkbenchError

pytestmark = pytest.mark.timeout(180)

TOPIC = GROUP = "Outlives"


@pytest.fixture(scope="module", params=VERSIONS)
def breakable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster of two brokers that a test may break."""
    running = Cluster(request.param, tmp_path_factory.mktemp(f"outlived-{request.param}") / "home", broker_count=2)
    try:
        yield running.wait()
    finally:
        running.stop()


@pytest.fixture
def ours(breakable: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    with our_consumers(breakable.namesrv, tmp_path / "ours") as made:
        yield made


def test_brokers_and_name_servers_that_die_stop_nothing_for_long(breakable: Cluster, ours: OurConsumers) -> None:
    """The broker dies by kill -9 and comes back; then the name server dies for good."""
    breakable.create_topic(TOPIC, queue_count=2)
    member = ours("ours", GROUP, TOPIC)
    sent: set[str] = set()

    def produce(prefix: str, broker_name: str) -> None:
        for number in (0, 1):
            breakable.java.produce(TOPIC, 20, prefix=f"{prefix}-{number}-", queue=f"{broker_name}:{number}")
            sent.update(f"{prefix}-{number}-{index}" for index in range(20))

    def everything_has_come() -> bool:
        return sent <= {each.body for each in member.heard()}

    for broker_name in breakable.brokers:
        produce(f"first-{broker_name}", broker_name)
    wait_until(everything_has_come)
    # Brokers write what they were sent to their file, and offsets that they were told within 5 s.
    time.sleep(6)
    broker = breakable.brokers["broker-a"]
    broker.kill()
    produce("meanwhile", "broker-b")
    wait_until(everything_has_come, 3)
    assert member.process.poll() is None
    broker.start()
    broker.wait()
    tried = count()
    # Who asked for the route while the broker was away asks again 30 s later, Java's producer and ours alike.
    wait_until(lambda: _has_sent(lambda: produce(f"back{next(tried)}", "broker-a")), 40)
    wait_until(everything_has_come, 40, lambda: member.said)
    breakable.namesrv_java.kill()
    produce("orphaned-a", "broker-a")
    produce("orphaned-b", "broker-b")
    wait_until(everything_has_come, 5)
    # Nothing was lost; what a broker forgot of the offsets comes again, from that broker only.
    found = Counter(each.body for each in member.heard("BEGAN"))
    assert sent <= set(found)
    again = {body for body in sent if found[body] > 1}
    assert all(body.startswith("first-broker-a") for body in again), again
    assert member.terminate() == 0, member.said


def _has_sent(send: Callable[[], None]) -> bool:
    try:
        send()
    except WorkbenchError:
        return False  # the producer's link is not back yet
    return True
