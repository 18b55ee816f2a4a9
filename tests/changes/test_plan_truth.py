"""What a plan foretells where members are ahead, filter, fail or are elsewhere, and by whose clock."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.changes.apply import refresh_plan
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.plan import plan_offsets
from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
from rmqctl.changes.offsets.targets import ResetRequest
from rmqctl.changes.undo import find_later
from rmqctl.errors import StaleError
from rmqctl.model.names import PROXY_GROUP
from rmqctl.model.plan import Consequence, Operation, Plan
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running, subscribed
from tests.admin.message_store import NOW_MS, MessageStore
from tests.changes.change_case import (
    apply,
    ask,
    instead,
    join,
    message_cluster,
    planned,
    store,
    stored,
    targets,
    the_item,
    written_count,
)
from tests.scripted_peer import V4_9_7, V5_4_0, ok, refused

both = pytest.mark.parametrize("version", [V4_9_7, V5_4_0])


def _ahead(version: int = V5_4_0, *, first: int = 10, count: int = 1, last: int = 10) -> Cluster:
    """Return a member that has pulled 410 messages of each queue, and is through with all but a few from offset 10."""
    cluster = message_cluster(store(version=version, counts={"T": (500, 500)}, offsets={"T": {0: 10, 1: 10}}))
    state = cluster.brokers["broker-a"]
    holds = {("T", "broker-a", queue): held(count, first=first, last=last, commit=10) for queue in (0, 1)}
    window = {"consumeConcurrentlyMaxSpan": "368", "pullBatchSize": "32"}
    state.groups["G"] = Group({"c1": running(holds, **window)})
    state.pulls |= {("G", "T", queue): 410 for queue in (0, 1)}
    return cluster


def _texts(plan: Plan, code: str) -> list[str]:
    return [item.text for item in plan.consequences if item.code == code]


# Members that are ahead


@both
@pytest.mark.parametrize(
    ("target", "reconsumed", "skipped"),
    [
        (5, (5, 404), (0, 0)),
        (60, (0, 350), (1, 50)),
        (410, (0, 0), (1, 400)),
        (500, (0, 0), (91, 490)),
    ],
)
def test_members_that_are_ahead_make_ranges(
    version: int, target: int, reconsumed: tuple[int, int], skipped: tuple[int, int]
) -> None:
    plan = planned(_ahead(version), TargetKind.OFFSET, target).plan
    item = the_item(plan)
    assert (item.reconsumed_bounds, item.skipped_bounds) == (reconsumed, skipped)
    for name, bounds in (("reconsumed", reconsumed), ("skipped", skipped)):
        is_exact = bounds[0] == bounds[1]
        assert getattr(item, name) == (bounds[0] if is_exact else None)
        assert item.reasons.get(name) == (None if is_exact else "IN_FLIGHT")
    (told,) = _texts(plan, "CLIENTS_AHEAD")
    assert told.startswith("Members have pulled 800 messages past the stored offsets and consumed up to 798 of them. ")
    assert told.endswith("Those from the target on are redelivered.")


def test_what_is_all_being_worked_on_is_not_consumed_yet() -> None:
    plan = planned(_ahead(count=400, last=409), TargetKind.OFFSET, 60).plan
    item = the_item(plan)
    assert (item.reconsumed, item.skipped) == (0, 50)
    assert _texts(plan, "CLIENTS_AHEAD") == []


def test_where_nothing_is_written_nothing_is_redelivered() -> None:
    plan = planned(_ahead(), TargetKind.CURRENT).plan
    assert [(item.reconsumed, item.skipped) for item in plan.items] == [(0, 0), (0, 0)]
    assert _texts(plan, "CLIENTS_AHEAD") == []


def test_members_that_do_not_tell_may_be_anywhere_up_to_the_end() -> None:
    cluster = _ahead(V4_9_7)
    cluster.brokers["broker-a"].groups["G"].members["c1"] = refused(R.SYSTEM_ERROR, "silent")
    plan = planned(cluster, TargetKind.OFFSET, 60).plan
    item = the_item(plan)
    assert (item.reconsumed_bounds, item.skipped_bounds) == ((0, 440), (0, 50))
    assert _texts(plan, "CLIENTS_AHEAD") == [
        "How far members have pulled is unknown for 2 queues: T@broker-a:0, T@broker-a:1."
    ]


@both
def test_without_members_numbers_are_exact(version: int) -> None:
    cluster = _ahead(version)
    cluster.brokers["broker-a"].groups.clear()
    item = the_item(planned(cluster, TargetKind.OFFSET, 60).plan)
    assert (item.reconsumed, item.skipped) == (0, 50)


# What members subscribe to


def test_a_filter_is_part_of_a_plan() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    join(cluster, "c1", subscriptions={"T": subscribed("T", "B || A")})
    assert planned(cluster).plan.filters == {"T": ("A||B",)}
    everything = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    join(everything, "c1")
    assert planned(everything).plan.filters == {}


def _elsewhere(*topics: str) -> Cluster:
    cluster = message_cluster(store(counts={"T": (100, 100), "U": (9,)}, offsets={"T": {0: 60, 1: 60}, "U": {0: 5}}))
    join(cluster, "c1", topics=topics)
    return cluster


def test_a_topic_that_no_member_subscribes_to_is_told() -> None:
    cluster = _elsewhere("U")
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    assert _texts(plan, "NOT_SUBSCRIBED") == ["No member subscribes to T: messages there are not consumed."]
    # Nobody is ahead in it either.
    assert the_item(plan).reconsumed == 40
    assert _texts(planned(cluster, topics=("U",)).plan, "NOT_SUBSCRIBED") == []


def test_a_member_that_is_silent_may_subscribe_to_it() -> None:
    cluster = _elsewhere("U")
    cluster.brokers["broker-a"].groups["G"].members["c2"] = refused(R.SYSTEM_ERROR, "silent")
    assert _texts(planned(cluster).plan, "NOT_SUBSCRIBED") == [
        "No member subscribes to T: messages there are not consumed. Unknown: 1 member that did not report."
    ]


def test_members_behind_proxies_may_subscribe_to_it_and_be_ahead_in_it() -> None:
    cluster = _elsewhere("U")
    cluster.brokers["broker-a"].groups[PROXY_GROUP] = Group({"proxy": running()})
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    assert _texts(plan, "NOT_SUBSCRIBED") == [
        "No member subscribes to T: messages there are not consumed. Unknown: members behind proxies."
    ]
    assert the_item(plan).reconsumed is None


def test_without_members_nothing_is_said_of_subscriptions() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    assert _texts(planned(cluster).plan, "NOT_SUBSCRIBED") == []


# Retries


@pytest.mark.parametrize(
    ("operation", "wish", "is_said"),
    [
        (Operation.OFFSET_SKIP, {"with_retry": True}, True),
        (Operation.OFFSET_RESET, {"with_retry": True}, True),
        (Operation.OFFSET_SKIP, {"topics": ("%RETRY%G",)}, True),
        (Operation.OFFSET_SKIP, {}, False),
    ],
)
def test_what_waits_for_its_delay_is_said_to_stay(operation: Operation, wish: dict[str, Any], is_said: bool) -> None:
    counts = {"T": (100, 100), "%RETRY%G": (10,)}
    cluster = message_cluster(store(counts=counts, offsets={"T": {0: 60, 1: 60}, "%RETRY%G": {0: 10}}))
    plan = planned(cluster, TargetKind.LATEST, operation=operation, **wish).plan
    assert [text.split(" (")[0] for text in _texts(plan, "DELAYED_STAY")] == (
        ["Failed messages that still wait for their retry delay"] if is_said else []
    )


# Clocks


def _telling(cluster: Cluster, *ahead_ms: int) -> Cluster:
    """Let brokers tell a time that is so far ahead of this machine's."""
    for (name, server), skew_ms in zip(cluster.servers.items(), ahead_ms, strict=True):

        def tell(request: Command, name: str = name, skew_ms: int = skew_ms) -> Command | None:
            if request.ext_fields["topic"] != "SELF_TEST_TOPIC":
                return None
            queue = {"brokerName": name, "queueId": 0, "topic": "SELF_TEST_TOPIC"}
            now_ms = cluster.clock.now_ms() + skew_ms
            span = {"messageQueue": queue, "consumeTimeStamp": now_ms, "delayTime": now_ms + 1}
            span |= {"minTimeStamp": 0, "maxTimeStamp": 0}
            return ok(json.dumps({"consumeTimeSpanSet": [span]}).encode())

        instead(server, Q.QUERY_CONSUME_TIME_SPAN, tell)
    return cluster


def _back(cluster: Cluster, ago_ms: int) -> Plan:
    wish = ResetRequest(
        Operation.OFFSET_RESET,
        TargetSpec(TargetKind.TIME, words="--by-duration X", ago_ms=ago_ms),
        ("T",),
        asked="--by-duration X",
    )
    return ask(cluster, lambda client: plan_offsets(client, "G", wish)).plan


def _stores(count: int) -> Cluster:
    names = ("broker-a", "broker-b", "broker-c")[:count]
    return message_cluster(*(store(name, offsets={"T": {0: 60, 1: 60}}) for name in names))


@pytest.mark.parametrize(
    ("skew_ms", "said"),
    [
        (0, []),
        (4_000, []),
        (3_600_000, ["1h00m behind broker-a"]),
        (-60_000, ["1m00s ahead of broker-a"]),
    ],
)
def test_a_time_back_is_counted_by_the_brokers_clock(skew_ms: int, said: list[str]) -> None:
    cluster = _telling(_stores(1), skew_ms)
    start_ms = cluster.clock.now_ms()
    # Messages are a second apart from NOW_MS on: that of 30 s later is wanted, by the broker's clock.
    plan = _back(cluster, start_ms + skew_ms - NOW_MS - 30_000)
    found = the_item(plan).target
    assert found is not None
    assert 30 <= found <= 40  # this clock moves on with each request
    assert plan.time_ms is not None
    assert 0 <= plan.time_ms - NOW_MS - 30_000 < 10_000
    assert plan.asked.startswith("--by-duration X (since 20")
    told = [
        f"The clock of this machine is {words}. The time is counted back from the brokers' clock." for words in said
    ]
    assert _texts(plan, "CLOCK_SKEW") == told


def test_a_time_back_is_never_ahead_whatever_this_machines_clock_says() -> None:
    plan = _back(_telling(_stores(1), 3_600_000), 60_000)
    assert plan.time_ms is not None
    assert plan.time_ms > plan.created_at_ms
    assert _texts(plan, "TIME_AHEAD") == []


@pytest.mark.parametrize(
    ("skews_ms", "counting_ms", "said"),
    [
        ((0, 90_000, 20_000), 20_000, "that of broker-c, which is in the middle."),
        ((3_600_000, 0), 0, "that of broker-b, the slower one."),
    ],
)
def test_brokers_whose_clocks_differ_are_told_and_whose_counts(
    skews_ms: tuple[int, ...], counting_ms: int, said: str
) -> None:
    plan = _back(_telling(_stores(len(skews_ms)), *skews_ms), 1_000)
    (text,) = _texts(plan, "CLOCKS_DIFFER")
    assert text.endswith(f": the time is counted back from {said}")
    assert plan.time_ms is not None
    assert abs(plan.time_ms - (plan.created_at_ms + counting_ms - 1_000)) < 10_000


def test_brokers_that_do_not_tell_leave_this_machines_clock() -> None:
    plan = _back(_stores(1), 1_000)
    assert _texts(plan, "CLOCK_UNKNOWN") == [
        "broker-a did not report the time: it is counted back from this machine's clock."
    ]


def test_a_time_that_is_named_is_that_time() -> None:
    cluster = _telling(_stores(1), 3_600_000)
    plan = planned(cluster, TargetKind.TIME, NOW_MS + 20_000).plan
    assert (the_item(plan).target, plan.time_ms) == (20, NOW_MS + 20_000)
    assert not [item for item in plan.consequences if item.code.startswith("CLOCK")]


# What is drift


def _stale(cluster: Cluster, plan: Plan) -> str:
    with pytest.raises(StaleError) as caught:
        ask(cluster, lambda client: refresh_plan(client, plan, strict=False))
    return caught.value.sentence


@both
@pytest.mark.parametrize("offsets", [{}, {"T": {0: 60, 1: 60}}])
def test_a_topic_that_was_made_again_is_drift(version: int, offsets: dict[str, dict[int, int]]) -> None:
    """With an offset the group's own would tell too; without any only the queue's end does."""
    cluster = message_cluster(store(version=version, offsets=offsets))
    plan = planned(cluster, TargetKind.OFFSET, 50).plan
    cluster.brokers["broker-a"].topics["T"] = [Queue(0), Queue(99)]
    told = _stale(cluster, plan)
    assert "T@broker-a:0: its end went back from 100 to 0: the topic was deleted and created again" in told
    assert "T@broker-a:1: its end went back from 100 to 99" in told


@both
@pytest.mark.parametrize("offsets", [{}, {"T": {0: 20, 1: 20}}])
def test_a_topic_that_was_made_again_and_filled_past_the_end_is_drift(
    version: int, offsets: dict[str, dict[int, int]]
) -> None:
    """4.9 keeps the group's offsets of a deleted topic, so that only the message at the target tells."""
    cluster = message_cluster(store(version=version, counts={"T": (50, 50)}, offsets=offsets))
    plan = planned(cluster, TargetKind.OFFSET, 40).plan
    assert ask(cluster, lambda client: refresh_plan(client, plan, strict=True)).id == plan.id
    again = MessageStore(BrokerState("broker-a", version))
    for queue_id in (0, 1):
        for number in range(65):
            again.put("T", queue_id, at_ms=NOW_MS + 3_600_000 + number * 1000)
    cluster.brokers["broker-a"].topics["T"] = again.state.topics["T"]
    cluster.servers["broker-a"].table |= again.table()
    told = _stale(cluster, plan)
    assert "T@broker-a:0: the message at its target 40 was stored at 2026-11-21T" in told
    assert written_count(cluster) == 0


def test_the_end_of_a_queue_and_a_message_that_is_gone_have_no_time_to_compare() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 100}}))
    plan = planned(cluster, TargetKind.LATEST).plan
    pulls = cluster.servers["broker-a"].codes().count(Q.PULL_MESSAGE)
    ask(cluster, lambda client: refresh_plan(client, plan, strict=False))
    assert cluster.servers["broker-a"].codes().count(Q.PULL_MESSAGE) == pulls


def test_a_target_that_retention_deleted_is_drift() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    plan = planned(cluster, TargetKind.OFFSET, 10).plan
    cluster.brokers["broker-a"].topics["T"][0].min_offset = 10
    ask(cluster, lambda client: refresh_plan(client, plan, strict=False))
    cluster.brokers["broker-a"].topics["T"][0].min_offset = 11
    assert "T@broker-a:0: its target 10 is deleted: the first message is now 11." in _stale(cluster, plan)


def test_a_queue_of_which_the_ends_are_not_read_is_drift() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    plan = planned(cluster, TargetKind.OFFSET, 10).plan
    cluster.servers["broker-a"].table[Q.GET_TOPIC_STATS_INFO] = refused(R.SYSTEM_ERROR, "boom")
    assert "T@broker-a:0: its first and last offsets could not be read." in _stale(cluster, plan)


@both
def test_a_group_that_is_not_configured_any_more_is_drift(version: int) -> None:
    cluster = message_cluster(store(version=version, offsets={"T": {0: 60, 1: 60}}))
    plan = planned(cluster, TargetKind.OFFSET, 10).plan
    assert plan.configured_at == ("broker-a",)
    cluster.brokers["broker-a"].configured.clear()
    assert "Group G was configured at broker-a and no longer is." in _stale(cluster, plan)


def test_a_broker_of_4_that_never_had_it_configured_is_none() -> None:
    cluster = message_cluster(store(version=V4_9_7, offsets={"T": {0: 60, 1: 60}}))
    cluster.brokers["broker-a"].configured.clear()
    plan = planned(cluster, TargetKind.OFFSET, 10).plan
    assert plan.configured_at == ()
    assert apply(cluster, plan).exit_code == 0


def test_a_saved_plan_is_shown_as_of_today() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    join(cluster, "c1")
    plan = planned(cluster, TargetKind.OFFSET, 50).plan
    assert (the_item(plan).reconsumed, the_item(plan).max_offset) == (10, 100)
    stored(cluster)[0] = 90
    cluster.brokers["broker-a"].topics["T"][0] = Queue(180, 30)
    today = ask(cluster, lambda client: refresh_plan(client, plan, strict=False))
    item = the_item(today)
    assert (item.before, item.target, item.min_offset, item.max_offset, item.reconsumed) == (90, 50, 30, 180, 40)
    assert the_item(today, 1) == the_item(plan, 1)
    assert (today.id, targets(today)) == (plan.id, targets(plan))


def test_ranges_of_a_saved_plan_are_those_of_today() -> None:
    cluster = message_cluster(store(counts={"T": (500,)}, offsets={"T": {0: 10}}))
    join(cluster, "c1")
    plan = planned(cluster, TargetKind.OFFSET, 5).plan
    assert the_item(plan).reconsumed == 5
    ahead = _ahead().brokers["broker-a"]
    cluster.brokers["broker-a"].groups, cluster.brokers["broker-a"].pulls = ahead.groups, ahead.pulls
    old = replace(plan, consequences=(*plan.consequences, Consequence("CLIENTS_AHEAD", "as it was")))
    today = ask(cluster, lambda client: refresh_plan(client, old, strict=False))
    assert the_item(today).reconsumed_bounds == (5, 404)
    (said,) = _texts(today, "CLIENTS_AHEAD")
    assert said.startswith("Members have pulled 400 messages past the stored offsets")


# Undo


def test_later_changes_are_those_that_were_noted_later_whatever_clocks_said() -> None:
    plan = planned(_stores(1), TargetKind.OFFSET, 10).plan
    late, early = _stores(1), _stores(1)
    for _ in range(3):
        planned(late)  # its clock moves on
    first = apply(late, plan).receipt
    second = apply(early, plan).receipt
    assert second.started_at_ms < first.started_at_ms
    with Journal() as journal:
        assert find_later(journal, first) == [second.id]
        assert find_later(journal, second) == []


def test_of_a_receipt_from_elsewhere_only_the_time_tells_what_came_later() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    first = apply(cluster, planned(cluster, TargetKind.OFFSET, 10).plan).receipt
    assert first.items[0].mq == MessageQueue("T", "broker-a", 0)
    with Journal() as journal:
        elsewhere = replace(first, id="elsewhere")
        assert find_later(journal, elsewhere) == [first.id]
        assert find_later(journal, replace(elsewhere, started_at_ms=first.started_at_ms + 1)) == []
