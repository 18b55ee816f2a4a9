"""`whatif readonly`, `broker drain` and `broker restore`: failed messages of a broker without write permission."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.java_json import loads

from .differential.asker import Asker
from .harness.cluster import Cluster
from .harness.held import held
from .harness.rmqctl import Rmqctl
from .harness.workbench import Attempt, WorkbenchError

pytestmark = pytest.mark.usefixtures("own_state")

_TOPIC = "ReadonlyOrders"
_MINE = "ReadonlyMine"
_FINDS, _BLOCKS = "ReadonlyFinds", "ReadonlyBlocks"
_OVER, _OVER_BLOCKS = "ReadonlyOver", "ReadonlyOverBlocks"
_ENDLESS, _BROADCAST, _POP = "ReadonlyEndless", "ReadonlyBroadcast", "ReadonlyPop"
_GROUPS: dict[str, dict[str, object]] = {
    _FINDS: {}, _BLOCKS: {}, _OVER: {"orderly": 1, "max": 1}, _OVER_BLOCKS: {"orderly": 1, "max": 1},
    _ENDLESS: {"orderly": 1}, _BROADCAST: {"broadcast": 1}, _POP: {"pop": 1},
}  # fmt: skip


def _groups(cluster: Cluster) -> list[str]:
    """Return the groups; popping came with 5.0."""
    return [group for group in _GROUPS if group != _POP or cluster.version.startswith("5")]


def _until(found: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    give_up_at = time.monotonic() + timeout_s
    while not found():
        assert time.monotonic() < give_up_at, what
        time.sleep(0.2)


@contextmanager
def _consuming(cluster: Cluster) -> Iterator[None]:
    """Run a member of each group that fails on every message and asks for routes each second, not each half minute."""
    try:
        for group in _groups(cluster):
            options = _GROUPS[group]
            cluster.java.consume(group, group, _TOPIC, fail="bad", collect=1, routes=1000, **options)
        yield
    finally:
        cluster.close_java()


@contextmanager
def _drained(rmqctl: Rmqctl, way: str) -> Iterator[None]:
    """Take write permission from broker-a for a while; without a way, rmqctl chooses that of name servers here."""
    plan = rmqctl("broker", "drain", "broker-a", "--dry-run", "-o", "json").document
    assert plan["route"] == "NAME_SERVER"
    try:
        rmqctl.change("broker", "drain", "broker-a", "--by", way)
        yield
    finally:
        rmqctl.change("broker", "restore", "broker-a")


def _perms(cluster: Cluster, *topics: str) -> list[int]:
    """Return the permissions of topics at broker-a as mqadmin shows the route."""
    routes = [loads(cluster.java.mqadmin("topicRoute", "-t", topic).encode())["queueDatas"] for topic in topics]
    return [data["perm"] for route in routes for data in route if data["brokerName"] == "broker-a"]


def _ask(cluster: Cluster, broker: str, code: int, body: object = b"", **fields: object) -> int:
    """Ask a broker by hand; return the answer's code."""
    asker = Asker(cluster.namesrv, cluster.addresses[broker], version=cluster.version, suffix="")
    try:
        answer = asker("broker", code, body, **fields)
    finally:
        asker.close()
    assert answer is not None
    return answer.code


def _produce(cluster: Cluster, topic: str, prefix: str) -> int:
    """Store a message at broker-a; return its place in the broker's log."""
    ids = cluster.java.produce(topic, 1, prefix=prefix, queue="broker-a:0")
    return int(ids.split("\t")[1][-16:], 16)


def _send_back(cluster: Cluster, group: str, commit_log_offset: int) -> int:
    """Send a message back to broker-a, as a client of the group would; return the answer's code."""
    return _ask(
        cluster, "broker-a", RequestCode.CONSUMER_SEND_MSG_BACK, offset=commit_log_offset, group=group, delayLevel=0,
        originTopic=_TOPIC, maxReconsumeTimes=16,
    )  # fmt: skip


def _freeze_retries(cluster: Cluster, *groups: str) -> None:
    """Leave the groups no broker but the first for their retries: the other's retry topic takes no messages."""
    for group in groups:
        code = _ask(
            cluster, "broker-b", RequestCode.UPDATE_AND_CREATE_TOPIC, topic=f"%RETRY%{group}", defaultTopic="TBW102",
            readQueueNums=1, writeQueueNums=1, perm=4, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false",
        )  # fmt: skip
        assert code == ResponseCode.SUCCESS


def _told(rmqctl: Rmqctl, *more: str) -> dict[str, Any]:
    result = rmqctl("whatif", "readonly", "--broker", "broker-a", "Readonly*", *more, "-o", "json")
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = result.document
    return document


def _verdicts(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {item["group"]: (item["verdict"], item["why"]) for item in document["items"]}


def _attempts(cluster: Cluster, group: str) -> list[Attempt]:
    return [attempt for attempt in cluster.java.attempts(group) if attempt.body.startswith("bad")]


def _position(rmqctl: Rmqctl, group: str, topic: str = _TOPIC) -> dict[str, Any]:
    """Return broker-a's queue of a topic as `offset show` has it."""
    items = rmqctl.items("offset", "show", group, "--topic", topic)
    return next(item for item in items if item["brokerName"] == "broker-a")


def test_groups_end_as_foretold(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic(_TOPIC, queue_count=1)
    cluster.create_topic(_MINE, queue_count=1, brokers=("broker-a",))
    for broker in cluster.addresses if cluster.version.startswith("5") else ():
        mode = {"consumerGroup": _POP, "mode": "POP", "popShareQueueNum": 0, "topic": _TOPIC}
        assert _ask(cluster, broker, RequestCode.SET_MESSAGE_REQUEST_MODE, mode) == ResponseCode.SUCCESS
    with _consuming(cluster):
        for group in _groups(cluster):
            cluster.wait_for_route(f"%RETRY%{group}", 2)
        _freeze_retries(cluster, _BLOCKS, _OVER_BLOCKS)

        expected = {
            _FINDS: ("FINDS_ANOTHER", "WRITABLE_BROKER"), _OVER: ("FINDS_ANOTHER", "WRITABLE_BROKER"),
            _BLOCKS: ("BLOCKS", "NO_WRITABLE_BROKER"), _OVER_BLOCKS: ("BLOCKS", "NO_WRITABLE_BROKER"),
            _ENDLESS: ("NOT_AFFECTED", "ORDERLY_ENDLESS"), _BROADCAST: ("NOT_AFFECTED", "BROADCASTING"),
            _POP: ("NOT_AFFECTED", "POP"),
        }  # fmt: skip
        expected = {group: expected[group] for group in _groups(cluster)}
        _until(lambda: _verdicts(_told(rmqctl)) == expected, "the verdicts are not the expected ones")
        document = _told(rmqctl)
        assert _MINE in document["unwritableTopics"]
        assert _TOPIC not in document["unwritableTopics"]
        assert document["isReadOnly"] is False
        place = _produce(cluster, _TOPIC, "good")
        assert _send_back(cluster, _FINDS, place) == ResponseCode.SUCCESS

        with _drained(rmqctl, "brokerPermission"):
            assert _send_back(cluster, _FINDS, place) == ResponseCode.NO_PERMISSION
            document = _told(rmqctl)
            assert (document["isReadOnly"], _verdicts(document)) == (True, expected)
            _see_what_happens(cluster, rmqctl)
        _see_it_move_on(cluster, rmqctl)


def _see_what_happens(cluster: Cluster, rmqctl: Rmqctl) -> None:
    time.sleep(2.5)  # until clients have asked for routes again
    _produce(cluster, _TOPIC, "bad")
    with pytest.raises(WorkbenchError, match="No route info of this topic"):
        cluster.java.produce(_MINE, 1)

    # Its retry comes from the other broker, after the 10 s of level 3.
    _until(lambda: len(_attempts(cluster, _FINDS)) > 1, "no retry came")
    first, second = _attempts(cluster, _FINDS)[:2]
    assert (first.queue, first.reconsume_times) == ("broker-a:0", 0)
    assert (second.queue, second.reconsume_times) == ("broker-b:0", 1)
    assert second.age_ms >= 10_000
    # The other one's client has tried the same message again and again, 5 s apart, and got rid of it nowhere.
    _until(lambda: len(_attempts(cluster, _BLOCKS)) >= 3, "it was not tried again")
    blocked = _attempts(cluster, _BLOCKS)
    assert {attempt.queue for attempt in blocked} == {"broker-a:0"}
    assert [attempt.reconsume_times for attempt in blocked] == list(range(len(blocked)))
    gaps_ms = [after.age_ms - before.age_ms for before, after in pairwise(blocked)]
    assert all(4_500 < gap_ms < 7_000 for gap_ms in gaps_ms), gaps_ms
    # In order it is tried far beyond its maximum of 1, and where there is another broker it is a dead letter there.
    assert len(_attempts(cluster, _OVER_BLOCKS)) > 5
    assert len(_attempts(cluster, _OVER)) == 2
    assert _has_dead_letter(cluster, "broker-b", _OVER)
    assert not _has_dead_letter(cluster, "broker-a", _OVER)
    assert len(_attempts(cluster, _BROADCAST)) == 1
    # What a client pops and doesn't acknowledge the broker itself gives out again.
    if _POP in _groups(cluster):
        _until(lambda: len(_attempts(cluster, _POP)) > 1, "what was popped did not come again")
        assert {attempt.queue for attempt in _attempts(cluster, _POP)} == {"broker-a:0"}

    for group in (_FINDS, _OVER):
        cluster.java.persist(group)
        _until(lambda group=group: _position(rmqctl, group)["lag"] == 0, f"{group} stands still")  # type: ignore[misc]
    for group in (_BLOCKS, _OVER_BLOCKS):
        cluster.java.persist(group)
        # The good one before it is through.
        assert (_position(rmqctl, group)["consumerOffset"], _position(rmqctl, group)["lag"]) == (1, 1)


def _has_dead_letter(cluster: Cluster, broker: str, group: str) -> bool:
    return _ask(cluster, broker, RequestCode.GET_TOPIC_STATS_INFO, topic=f"%DLQ%{group}") == ResponseCode.SUCCESS


def _see_it_move_on(cluster: Cluster, rmqctl: Rmqctl) -> None:
    for group in (_BLOCKS, _OVER_BLOCKS):

        def is_through(group: str = group) -> bool:
            cluster.java.persist(group)
            return bool(_position(rmqctl, group)["lag"] == 0)

        _until(is_through, f"{group} still stands")
    # Sent back at last, to the broker that has the message.
    assert _has_dead_letter(cluster, "broker-a", _OVER_BLOCKS)
    assert _told(rmqctl)["isReadOnly"] is False


def test_what_the_name_server_takes_leaves_send_backs_alone(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, closed, group = "WipedOrders", "WipedClosed", "ReadonlyWiped"
    cluster.create_topic(topic, queue_count=1)
    cluster.java.consume(group, group, topic)
    try:
        cluster.wait_for_route(f"%RETRY%{group}", 2)
        place = _produce(cluster, topic, "good")
        rmqctl.change("topic", "create", closed, "--perm", "r")
        drained = rmqctl.change("broker", "drain", "broker-a", "--by", "wipeWritePerm")
        assert _perms(cluster, topic, closed) == [4, 4]
        document = _told(rmqctl, "--by", "wipeWritePerm")
        assert topic in document["wipedTopics"]
        assert "ALREADY_WIPED" in {concern["code"] for concern in document["concerns"]}
        assert _verdicts(document)[group] == ("NOT_AFFECTED", "SEND_BACK_ACCEPTED")
        assert _send_back(cluster, group, place) == ResponseCode.SUCCESS
        rmqctl.change("offset", "undo", drained["id"])
        assert _perms(cluster, topic, closed) == [6, 4]
    finally:
        rmqctl("broker", "restore", "broker-a", "--yes")
        cluster.java.stop(group)
    before = _configured(cluster)
    assert topic not in _told(rmqctl)["wipedTopics"]
    # To ask is to leave no trace.
    assert _configured(cluster) == before


def _configured(cluster: Cluster) -> dict[str, Any]:
    """Return topics and groups at all servers; offsets of groups that left still move."""
    return {what: found for what, found in held(cluster.namesrv).items() if not what.startswith("offsets")}
