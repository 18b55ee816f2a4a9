from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rmqctl.admin.topics.queues import parse_queue_choice
from rmqctl.errors import UsageError
from rmqctl.observe.stuck_scan import StuckScan, scan_group
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.rules.stuck_queues import AgeSource, StuckReason
from tests.admin.cluster import BrokerState, Cluster, Group, held, rates, running, subscribed
from tests.admin.message_store import MessageStore, message_cluster
from tests.observe.test_group_sampler import A0
from tests.scripted_peer import Reply, passing, refused, run

NOW_MS = 2_000_000_000_000
STACK = (
    f"{'ConsumeMessageThread_G_1':<40}TID: 9 STATE: WAITING\n"
    f"{'ConsumeMessageThread_G_1':<40}com.shop.Bill.consumeMessage(Bill.java:12)\n"
    f"{'ConsumeMessageThread_G_1':<40}org.apache.rocketmq.client.impl.consumer."
    "ConsumeMessageConcurrentlyService$ConsumeRequest.run(C.java:411)\n"
)


def member(head: int | None = 5, *, quiet_ms: int = 0, dump: str = STACK, **more: Any) -> Command:
    """A member that holds queue 0 and has a message in hand, and has finished none for so long."""
    queue = held(1, head, head, head) if head is not None else held(0, 0, 0, 5)
    queue |= {"lastPullTimestamp": NOW_MS, "lastConsumeTimestamp": NOW_MS - quiet_ms, "lastLockTimestamp": 7}
    options = {"PROP_CONSUMEORDERLY": "false", "PROP_THREADPOOL_CORE_SIZE": "20", **more.pop("properties", {})}
    answer = running({A0: queue}, **options, **more)
    return Command(answer.code, answer.ext_fields, answer.body[:-1] + b',"jstack":' + _text(dump) + b"}")


def _text(dump: str) -> bytes:
    return ('"' + dump.replace("\n", "\\n") + '"').encode()


def cluster(reply: Reply, *others: BrokerState) -> Cluster:
    """One broker with 10 messages in each of two queues; a group is at 5 of the first, and has one member."""
    store = MessageStore(BrokerState("broker-a"))
    for queue_id in (0, 1):
        for number in range(10):
            store.put("T", queue_id, body=f"{queue_id}-{number}".encode(), keys=f"order-{number}")
    store.state.topics["T"][0].head_age_ms = 3_600_000
    store.state.offsets["G"] = {"T": {0: 5, 1: 10}}
    store.state.configured.add("G")
    store.state.groups = {"G": Group({"one": reply})}
    return message_cluster(store, *map(MessageStore, others))


def scan(cluster: Cluster, *queues: str, **options: Any) -> StuckScan:
    async def main() -> StuckScan:
        async with cluster.client(open_ended=True) as client:
            choices = [parse_queue_choice(text) for text in queues]
            asked = scan_group(client, "G", ["T"], choices, **{"window_s": 5.0, **options})
            return await passing(cluster.clock, asked)

    return run(main())


def after(*replies: Command) -> Callable[[Command], Command]:
    """Give these answers one after the other, the last one from then on; those with stacks do not count."""
    left: Iterator[Command] = iter(replies)
    now = [replies[0]]

    def reply(request: Command) -> Command:
        if request.ext_fields["jstackEnable"] == "false":
            now[0] = next(left, now[0])
        return now[0]

    return reply


def test_a_message_that_hangs_is_found_with_its_thread() -> None:
    found = scan(cluster(member(quiet_ms=120_000)), older_than_ms=5_000)
    (queue,) = found.stuck
    assert (queue.progress.mq, queue.verdict.why) == (A0, StuckReason.IN_CONSUMPTION)
    assert queue.verdict.source is AgeSource.LAST_CONSUMED
    assert queue.head is not None
    assert queue.head.message is not None
    assert (queue.head.queue_offset, bytes(queue.head.message.body)) == (5, b"0-5")
    assert [each.frames for each in found.members["one"].threads or ()] == [
        ("com.shop.Bill.consumeMessage(Bill.java:12)",)
    ]
    assert found.queues == found.stuck


def test_it_is_found_by_an_account_that_may_not_read_messages() -> None:
    servers = cluster(member(quiet_ms=120_000))
    servers.servers["broker-a"].table[Q.PULL_MESSAGE] = refused(R.NO_PERMISSION, "no")
    found = scan(servers)
    (queue,) = found.stuck
    assert (queue.progress.mq, queue.verdict.source, queue.head) == (A0, AgeSource.LAST_CONSUMED, None)
    assert [(each.what, each.error.exit_code) for each in found.failures] == [(f"head message of {A0}", 4)]


@pytest.mark.parametrize(
    ("dump", "batch", "busy_count", "most"),
    [
        (STACK, "16", 1, 16),
        (STACK, "", 1, None),
        (STACK.replace("Thread_G_1", "Thread_X_1"), "16", 0, 0),
        # A pop listener of any group, beside the one that hangs.
        (STACK + "\n" + STACK.replace("_G_1", "_1").replace("Concurrently", "PopConcurrently"), "16", 1, 16),
        # Its name does not show whose listener it is.
        (STACK + "\n" + STACK.replace("_G_1", "_1"), "16", None, None),
    ],
)
def test_only_what_is_in_the_listener_of_this_group_counts(
    dump: str, batch: str, busy_count: int | None, most: int | None
) -> None:
    found = scan(
        cluster(member(quiet_ms=120_000, dump=dump, properties={"consumeMessageBatchMaxSize": batch})),
        older_than_ms=5_000,
    )
    (queue,) = found.stuck
    assert queue.holder is not None
    assert (queue.holder.busy_count, queue.holder.listening_max) == (busy_count, most)
    assert queue.verdict.why is (StuckReason.IN_CONSUMPTION if busy_count else StuckReason.IN_HAND)
    assert found.members["one"].busy_count == busy_count


def test_it_is_watched_for_longer_only_where_that_decides() -> None:
    waits: list[tuple[float, float]] = []
    found = scan(
        cluster(member()), older_than_ms=20_000, patience_s=40.0, on_wait=lambda *times: waits.append(times)
    )  # fmt: skip
    assert [each.verdict.is_stuck for each in found.queues] == [True]
    assert 20_000 <= found.watched_ms < 26_000
    assert waits[-1][1] == 20.0

    moved = scan(cluster(after(member(), member(), member(6))), older_than_ms=20_000, patience_s=40.0)
    assert moved.stuck == ()
    assert moved.watched_ms < 12_000


def test_without_patience_it_stays_undecided() -> None:
    found = scan(cluster(member()), older_than_ms=20_000)
    assert [(each.verdict.is_stuck, each.verdict.needs_time) for each in found.queues] == [(None, True)]


def test_a_group_that_goes_on_has_nothing_stuck() -> None:
    assert scan(cluster(after(member(5), member(10)))).queues == ()


def test_retries_that_no_broker_stores() -> None:
    failing = member(quiet_ms=120_000, dump="x TID: 1 STATE: W\n", statuses={"T": rates(failed_tps=0.2)})
    servers = cluster(failing)
    state = servers.brokers["broker-a"]
    state.settings["brokerPermission"] = "4"
    found = scan(servers, older_than_ms=5_000)
    assert [each.verdict.why for each in found.stuck] == [StuckReason.LOCAL_RETRY]
    assert found.retry_hindrances == {"broker-a": "BROKER_NOT_WRITABLE"}


def test_a_member_that_does_not_answer_may_hold_what_does_not_move() -> None:
    found = scan(cluster(refused(R.SYSTEM_ERROR, "The Consumer <G> <one> not online")))
    assert [(each.verdict.why, each.verdict.is_stuck) for each in found.queues] == [(StuckReason.MEMBER_SILENT, None)]
    assert found.silent_ids == ("one",)
    assert [failure.what for failure in found.failures] == ["running info of one"]


NO_ANSWER = refused(R.CONSUME_MSG_TIMEOUT, "consumer <G> <one> Timeout")


def failed(found: StuckScan) -> list[str]:
    return [failure.what for failure in found.failures]


def test_a_member_that_answers_only_the_last_look() -> None:
    """It is not judged by what it did not answer: by its own times, or by looks that it answers."""
    hangs = scan(cluster(after(NO_ANSWER, member(quiet_ms=360_000))))
    assert ([each.verdict.is_stuck for each in hangs.queues], hangs.failures) == ([True], ())
    undecided = scan(cluster(after(NO_ANSWER, member())))
    assert [(each.verdict.is_stuck, each.verdict.needs_time) for each in undecided.queues] == [(None, True)]
    assert failed(undecided) == ["running info of one"]
    rests = scan(cluster(after(NO_ANSWER, member())), older_than_ms=20_000, patience_s=60.0)
    assert ([each.verdict.is_stuck for each in rests.queues], rests.failures) == ([True], ())
    assert rests.watched_ms < 35_000
    moves = scan(cluster(after(NO_ANSWER, member(), member(6))), patience_s=60.0)
    assert ({each.verdict.is_stuck for each in moves.queues}, moves.failures) == ({False}, ())
    idles = scan(cluster(after(NO_ANSWER, member(None))), patience_s=60.0)
    assert ([each.verdict.why for each in idles.queues], idles.failures) == ([StuckReason.PAUSED], ())


def test_an_end_that_could_only_be_read_at_the_last_look() -> None:
    servers = cluster(member(None), BrokerState("broker-b"))
    servers.brokers["broker-b"].groups = servers.brokers["broker-a"].groups
    table = servers.servers["broker-a"].table
    answers, left = table[Q.GET_CONSUME_STATS], iter([refused(R.SYSTEM_ERROR, "busy")])
    table[Q.GET_CONSUME_STATS] = lambda request: next(left, answers)
    found = scan(servers)
    assert (found.queues, failed(found)) == ((), ["offsets"])


def test_stacks_that_a_member_does_not_send_are_unknown() -> None:
    def reply(request: Command) -> Command:
        return NO_ANSWER if request.ext_fields["jstackEnable"] == "true" else member(quiet_ms=120_000)

    found = scan(cluster(reply), older_than_ms=5_000)
    assert [(each.verdict.why, each.verdict.is_stuck) for each in found.queues] == [(StuckReason.IN_HAND, True)]
    assert failed(found) == ["stacks of one"]


@pytest.mark.parametrize("orderly", ["false", "true"])
def test_another_process_with_the_same_client_id_has_had_nothing_before(orderly: str) -> None:
    def started(at_ms: int) -> Command:
        own = {"PROP_CONSUMER_START_TIMESTAMP": str(at_ms), "PROP_CONSUMEORDERLY": orderly}
        return member(properties=own)

    assert len(scan(cluster(started(1)), older_than_ms=4_000).stuck) == 1
    assert scan(cluster(after(started(1), started(2))), older_than_ms=6_000).stuck == ()


def test_a_queue_that_moved_to_another_member_between_the_looks() -> None:
    def fresh() -> Cluster:
        servers = cluster(after(member(), running({})))
        servers.brokers["broker-a"].groups["G"].members["two"] = after(running({}), member())
        return servers

    assert [each.verdict.is_stuck for each in scan(fresh(), older_than_ms=6_000).queues] == [False]
    # It may have had the message for longer than this limit.
    assert [each.verdict.is_stuck for each in scan(fresh(), older_than_ms=4_000).queues] == [None]
    assert [each.verdict.is_stuck for each in scan(fresh(), older_than_ms=4_000, patience_s=60.0).queues] == [True]


def test_a_member_that_takes_nothing() -> None:
    paused = member(None)
    assert [each.verdict.why for each in scan(cluster(paused)).queues] == [StuckReason.PAUSED]
    closed = cluster(paused)
    closed.brokers["broker-a"].group_configs["G"] = {"consumeEnable": False}
    assert [each.verdict.why for each in scan(closed).queues] == [StuckReason.PULLS_REFUSED]


def test_a_member_that_pulls_by_itself_may_hold_what_no_member_reports() -> None:
    # Its broker reports a push consumer: the last heartbeat was that of another member.
    lite = running(PROP_CONSUME_TYPE="CONSUME_ACTIVELY")
    assert [each.verdict.why for each in scan(cluster(lite)).queues] == [StuckReason.NOT_REPORTED]


@pytest.mark.parametrize(("options", "is_overdue"), [({"pullThresholdForAll": "10000"}, False), ({}, True)])
def test_an_application_that_polls_serves_one_queue_after_another(options: dict[str, str], is_overdue: bool) -> None:
    servers = cluster(running(PROP_CONSUME_TYPE="CONSUME_ACTIVELY", **options))
    stored = servers.brokers["broker-a"].offsets["G"]["T"]
    stored[1] = 5
    servers.clock.call_later(10, lambda: stored.update({1: 8}))
    (waiting,) = (each for each in scan(servers, window_s=32.0).queues if each.progress.mq.queue_id == 0)
    assert (waiting.verdict.why, waiting.verdict.is_overdue) == (StuckReason.NOT_REPORTED, is_overdue)


@pytest.mark.parametrize(("language", "why"), [("JAVA", StuckReason.PAUSED), ("GO", StuckReason.FILTERED)])
def test_a_member_that_does_not_pass_a_message_that_its_filter_leaves_out(language: str, why: StuckReason) -> None:
    servers = cluster(member(None, quiet_ms=120_000, subscriptions=[subscribed("T", "A")]))
    servers.brokers["broker-a"].groups["G"].languages["one"] = language
    servers.brokers["broker-a"].pulls["G", "T", 0] = 10
    (queue,) = scan(servers).queues
    assert queue.verdict.why is why


@pytest.mark.parametrize(("pulled", "why"), [(10, StuckReason.FILTERED), (5, StuckReason.PAUSED)])
def test_a_lite_pull_consumer_commits_past_filtered_messages_with_the_next_one(pulled: int, why: StuckReason) -> None:
    own = {"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"}
    servers = cluster(member(None, quiet_ms=120_000, subscriptions=[subscribed("T", "A")], properties=own))
    servers.brokers["broker-a"].pulls["G", "T", 0] = pulled
    (queue,) = scan(servers).queues
    assert queue.verdict.why is why


@pytest.mark.parametrize(("expression", "is_overdue"), [("*", None), ("A", False)])
def test_messages_that_no_member_holds_may_be_filtered(expression: str, is_overdue: bool | None) -> None:
    pulling = running(subscriptions=[subscribed("T", expression)], PROP_CONSUME_TYPE="CONSUME_ACTIVELY")
    servers = cluster(pulling)
    servers.brokers["broker-a"].groups["G"].subscriptions["T"] = subscribed("T", expression)
    servers.brokers["broker-a"].pulls["G", "T", 0] = 10
    (queue,) = scan(servers).queues
    assert (queue.verdict.why, queue.verdict.is_overdue) == (StuckReason.NOT_REPORTED, is_overdue)


def test_what_an_application_has_not_polled_is_not_stuck() -> None:
    polling = member(5, quiet_ms=120_000, properties={"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"})
    (queue,) = scan(cluster(polling)).queues
    assert (queue.verdict.why, queue.verdict.is_stuck) == (StuckReason.NOT_POLLED, False)
    assert queue.verdict.is_overdue is True


@pytest.mark.parametrize(("count", "is_overdue"), [(0, True), (97, None)])
def test_a_member_that_pops_nothing_for_long(count: int, is_overdue: bool | None) -> None:
    popping = running(pops={("T", "broker-a", -1): count}, subscriptions=[subscribed("T")])
    (queue,) = scan(cluster(popping), window_s=32.0).queues
    assert (queue.verdict.why, queue.verdict.is_overdue) == (StuckReason.POP, is_overdue)


def test_only_the_queues_that_were_asked_for() -> None:
    servers = cluster(member(quiet_ms=120_000))
    assert scan(servers, "broker-a:1", older_than_ms=5_000).queues == ()
    with pytest.raises(UsageError):
        scan(servers, "broker-a:7")


def test_nothing_is_written() -> None:
    servers = cluster(member(quiet_ms=120_000))
    scan(servers)
    asked = set(servers.servers["broker-a"].codes())
    assert asked <= {
        Q.GET_CONSUME_STATS, Q.GET_CONSUMER_CONNECTION_LIST, Q.GET_CONSUMER_RUNNING_INFO, Q.GET_TOPIC_STATS_INFO,
        Q.QUERY_CONSUME_TIME_SPAN, Q.GET_BROKER_CONFIG, Q.GET_BROKER_RUNTIME_INFO, Q.PULL_MESSAGE, Q.LITE_PULL_MESSAGE,
        Q.QUERY_CONSUMER_OFFSET, Q.GET_ALL_CONSUMER_OFFSET, Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    }  # fmt: skip
