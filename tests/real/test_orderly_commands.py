"""What other commands say of a group that has an orderly member of ours beside Java's, and do to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until
from tests.real.harness.diagnose_case import diagnose

from .harness.cluster import Cluster
from .harness.consumer import our_consumers
from .harness.rmqctl import Rmqctl

_COUNT, _TARGET = 15_000, 1000


def test_a_group_with_members_of_javas_and_ours(
    cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is wrong with it, its queues are shared as computed, and a reset sends both members back."""
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    topic = group = "orderly-both"
    java, queues = cluster.java, ("broker-a:0", "broker-b:0")
    cluster.create_topic(topic, queue_count=1)
    java.consume("both", group, topic, orderly=1, collect=1, each=1)
    with our_consumers(cluster.namesrv, tmp_path / "ours") as ours:
        member = ours("both", group, topic, "--orderly", EACH_S="0.001")

        def shares() -> list[int]:
            """Return how many queues each member has, once they are those that are computed."""
            (item,) = rmqctl.items("whatif", "allocate", group)
            held = [each["queueCount"] for each in rmqctl.items("group", "members", group)]
            return held if item["isAsComputed"] else []

        # One of the topic and one for retries.
        wait_until(lambda: shares() == [2, 2], 90, why=shares)
        (item,) = rmqctl.items("whatif", "allocate", group, "--add-clients", "10.0.0.9@zz")
        assert "ORDERLY_QUEUES_MOVE" in {each["code"] for each in item["concerns"]}
        (affected,) = rmqctl.items("whatif", "readonly", "--broker", "broker-a", group)
        assert affected["why"] == "ORDERLY_ENDLESS", affected
        assert diagnose(rmqctl, group, "--for", "0s", "--settle", "0s").codes == {group: frozenset()}

        for queue in queues:
            java.produce(topic, _COUNT, queue=queue, batch=100)

        def numbers() -> list[list[int]]:
            """Return the numbers of the messages that each member was given, in order."""
            given = ([each.body for each in java.attempts("both")], [each.body for each in member.heard()])
            return [[int(body.removeprefix("m").rstrip(".")) for body in bodies] for bodies in given]

        wait_until(lambda: all(len(each) > 2 * _TARGET for each in numbers()), 60)
        done = rmqctl("offset", "reset", group, "--topic", topic, "--to-offset", str(_TARGET), "--yes", "-o", "json")
        assert done.exit_code == 0, done.stdout + done.stderr
        route = done.document["route"]
        assert route == ("CLIENT_PUSH" if cluster.version == "4.9.7" else "SERVER_SIDE")
        wait_until(lambda: all(each[-1] == _COUNT - 1 for each in numbers()), 120)
        for given in numbers():
            (turn,) = [at for at, number in enumerate(given) if at and number < given[at - 1]]
            assert given == [*range(turn), *range(_TARGET, _COUNT)]

        def progress() -> list[tuple[int, int]]:
            items = rmqctl.items("offset", "show", group, "--topic", topic)
            return [(item["consumerOffset"], item["lag"]) for item in items]

        wait_until(lambda: progress() == [(_COUNT, 0)] * 2, 30, why=progress)
        assert member.terminate() == 0
    java.stop("both")
