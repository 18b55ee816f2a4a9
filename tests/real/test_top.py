"""`top` beside a real broker and a Java member: the group, its queues and its member on the screen."""

from __future__ import annotations

from tests.repetition import repeating
from tests.terminal import on_terminal

from .harness.cluster import Cluster

_QUICK = ("--every", "2s", "--window", "40s")


def test_a_group_is_followed_on_the_screen(cluster: Cluster) -> None:
    topic = "TopFollows"
    cluster.create_topic(topic, queue_count=2)
    cluster.java.consume("top-follows", topic, topic)
    cluster.java.produce(topic, 40)
    cluster.java.wait_consumed("top-follows", 40)
    with (
        repeating(lambda: cluster.java.produce(topic, 4), 1.0),
        on_terminal("-n", cluster.namesrv, "top", *_QUICK, size=(200, 50), RMQCTL_MEMORY="0") as terminal,
    ):
        terminal.wait_for(topic)
        terminal.press(f"/{topic}\r")
        terminal.wait_for("1 shown")
        terminal.press("\r")
        # The look at its member, and a rate from samples of the Java member's commits.
        terminal.wait_for("averagely")
        terminal.wait_for(f"{topic} is OK: lag")
        terminal.press("\x1b")
        terminal.wait_for("1 shown")
        cluster.java.stop("top-follows")
        terminal.press("\r")
        terminal.wait_for("0 members, read")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_as_before
