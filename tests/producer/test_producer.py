"""The producer beside scripted brokers: queues in turn, attempts at other brokers, batches, times, statuses."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from rmqctl.client.core import Client
from rmqctl.errors import (
    BrokerError,
    DeadlineError,
    LocalProtocolError,
    NotAuthorisedError,
    NotFoundError,
    RefusedError,
    RmqctlError,
    UnreachableError,
    UsageError,
)
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage, SendResult, SendStatus
from rmqctl.producer import Producer, make_message
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.properties import decode_properties
from rmqctl.protocol.record import iter_batch
from tests.admin.cluster import Cluster
from tests.client.send_brokers import TOPIC, sending_cluster, sent, stored
from tests.scripted_peer import DROP, SILENCE, V4_9_7, Late, passing, refused, run

Work = Callable[[Producer], Coroutine[Any, Any, Any]]


def _send(cluster: Cluster, work: Work, **options: Any) -> Any:
    """Let a producer work, while the cluster's clock moves on."""

    async def go() -> Any:
        client: Client = cluster.client(timeout_s=30)
        async with client:
            return await passing(cluster.clock, work(Producer(client, "P", **options)))

    return run(go())


def _failing(cluster: Cluster, work: Callable[[Producer], Awaitable[Any]], **options: Any) -> RmqctlError:
    """Return the error that a producer's work ends with."""

    async def go(producer: Producer) -> RmqctlError:
        with pytest.raises(RmqctlError) as caught:
            await work(producer)
        return caught.value

    error: RmqctlError = _send(cluster, go, **options)
    return error


def _messages(count: int, size_bytes: int = 1) -> list[OutgoingMessage]:
    return [OutgoingMessage(b"x" * size_bytes, {"KEYS": str(number)}) for number in range(count)]


async def _batches(producer: Producer, messages: list[OutgoingMessage], **options: Any) -> list[list[SendResult]]:
    return [results async for results in producer.send_batches(TOPIC, messages, **options)]


# One message


def test_a_message_and_where_it_is() -> None:
    cluster = sending_cluster("broker-a", queue_count=1)
    result = _send(
        cluster, lambda producer: producer.send(TOPIC, b"hi", keys=["k"], tag="A", properties={"p": "v"}, delay_level=2)
    )
    (request,) = sent(cluster, "broker-a")
    properties = decode_properties(request.ext_fields["i"])
    key = properties.pop("UNIQ_KEY")
    assert properties == {"KEYS": "k", "TAGS": "A", "p": "v", "DELAY": "2", "WAIT": "true"}
    assert (request.body, request.ext_fields["a"], request.ext_fields["g"]) == (b"hi", "P", "1800000000000")
    mq = MessageQueue(TOPIC, "broker-a", 0)
    assert result == SendResult(mq, SendStatus.SEND_OK, 0, key, "broker-a-0-0", "R", True)


def test_messages_go_round_all_queues_of_all_brokers() -> None:
    cluster = sending_cluster("broker-a", "broker-b")

    async def work(producer: Producer) -> list[SendResult]:
        return [await producer.send(TOPIC, b"x") for _ in range(8)]

    results = _send(cluster, work)
    places = [result.mq for result in results]
    assert places[:4] == places[4:]
    assert len(set(places)) == 4
    assert len({result.unique_key for result in results}) == 8


def test_runs_begin_at_different_queues() -> None:
    first = {
        _send(sending_cluster("broker-a", queue_count=16), lambda producer: producer.send(TOPIC, b"x")).mq
        for _ in range(24)
    }
    assert len(first) > 1


def test_a_message_keeps_the_unique_key_that_it_has() -> None:
    cluster = sending_cluster("broker-a")
    message = OutgoingMessage(b"x", {"UNIQ_KEY": "OLD"})
    assert _send(cluster, lambda producer: producer.send_message(TOPIC, message)).unique_key == "OLD"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (R.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (R.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (R.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
def test_what_is_stored_badly_is_told_and_not_sent_again(code: int, status: SendStatus) -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    for server in cluster.servers.values():
        server.table[Q.SEND_MESSAGE_V2] = stored("ID", code=code)
    assert _send(cluster, lambda producer: producer.send(TOPIC, b"x")).status is status
    assert len(sent(cluster, "broker-a") + sent(cluster, "broker-b")) == 1


def test_a_body_that_is_too_large_is_not_sent() -> None:
    cluster = sending_cluster("broker-a")

    error = _failing(cluster, lambda producer: producer.send(TOPIC, bytes(4 * 1024 * 1024 + 1)))
    assert isinstance(error, LocalProtocolError)
    assert sent(cluster, "broker-a") == []


def test_properties_that_are_too_long_with_the_unique_key_are_not_sent() -> None:
    cluster = sending_cluster("broker-a")
    message = OutgoingMessage(b"x", {"p": "v" * 32_760})
    for work in (
        lambda producer: producer.send_message(TOPIC, message),
        lambda producer: _batches(producer, [*_messages(1), message]),
    ):
        error = _failing(cluster, work)
        assert isinstance(error, LocalProtocolError)
        assert "cannot be sent: keys, tag and properties have" in error.sentence
    assert sent(cluster, "broker-a") == []


def test_a_topic_that_there_is_not_and_one_that_is_closed() -> None:
    cluster = sending_cluster("broker-a")
    assert isinstance(_failing(cluster, lambda producer: producer.send("U", b"x")), NotFoundError)
    cluster.brokers["broker-a"].topic_configs[TOPIC] = {"perm": 4}
    error = _failing(cluster, lambda producer: producer.send(TOPIC, b"x"))
    assert isinstance(error, RefusedError)
    assert "no writable queue" in error.sentence


# Other attempts


@pytest.mark.parametrize(
    "code",
    [R.TOPIC_NOT_EXIST, R.SERVICE_NOT_AVAILABLE, R.SYSTEM_ERROR, R.NO_PERMISSION, R.NO_BUYER_ID, R.NOT_IN_CURRENT_UNIT,
     R.GO_AWAY],
)  # fmt: skip
def test_another_broker_takes_what_one_refuses(code: int) -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    cluster.servers["broker-a"].table[Q.SEND_MESSAGE_V2] = refused(code, "no")

    async def work(producer: Producer) -> list[SendResult]:
        return [await producer.send(TOPIC, b"x") for _ in range(4)]

    assert {result.mq.broker_name for result in _send(cluster, work)} == {"broker-b"}
    # Never twice for one message: the second attempt is at the other broker.
    keys = [decode_properties(request.ext_fields["i"])["UNIQ_KEY"] for request in sent(cluster, "broker-a")]
    assert keys
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("reply", [DROP, "refusing"])
def test_another_broker_takes_what_one_does_not_answer_to(reply: Any) -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    if reply is DROP:
        cluster.servers["broker-a"].table[Q.SEND_MESSAGE_V2] = DROP
    else:
        cluster.stop("broker-a")

    async def work(producer: Producer) -> list[SendResult]:
        return [await producer.send(TOPIC, b"x") for _ in range(4)]

    assert {result.mq.broker_name for result in _send(cluster, work)} == {"broker-b"}


def test_what_is_wrong_with_the_message_is_not_tried_again() -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    for server in cluster.servers.values():
        server.table[Q.SEND_MESSAGE_V2] = refused(R.MESSAGE_ILLEGAL, "too long")
    error = _failing(cluster, lambda producer: producer.send(TOPIC, b"x"))
    assert isinstance(error, BrokerError)
    assert (error.code, error.remark) == (R.MESSAGE_ILLEGAL, "too long")
    assert len(sent(cluster, "broker-a") + sent(cluster, "broker-b")) == 1


def test_three_attempts_and_no_more_then_the_last_error() -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    for server in cluster.servers.values():
        server.table[Q.SEND_MESSAGE_V2] = refused(R.NO_PERMISSION, "the topic[T] sending message is forbidden")
    error = _failing(cluster, lambda producer: producer.send(TOPIC, b"x"))
    assert isinstance(error, NotAuthorisedError)
    assert error.sentence.endswith("All 3 attempts failed.")
    assert len(sent(cluster, "broker-a") + sent(cluster, "broker-b")) == 3
    assert "may have been stored" not in error.sentence


def test_a_given_queue_is_tried_once() -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    cluster.servers["broker-a"].table[Q.SEND_MESSAGE_V2] = DROP
    mq = MessageQueue(TOPIC, "broker-a", 1)
    error = _failing(cluster, lambda producer: producer.send(TOPIC, b"x", mq=mq))
    assert isinstance(error, UnreachableError)
    assert error.sentence.endswith("The message may have been stored.")
    assert (len(sent(cluster, "broker-a")), len(sent(cluster, "broker-b"))) == (1, 0)


def test_a_broker_that_was_never_reached_stored_nothing() -> None:
    cluster = sending_cluster("broker-a")
    cluster.stop("broker-a")
    assert _failing(cluster, lambda producer: producer.send(TOPIC, b"x")).hint is None
    error = _failing(cluster, lambda producer: producer.send(TOPIC, b"x", mq=MessageQueue(TOPIC, "broker-z", 0)))
    assert error.sentence == "broker-z: no master is registered."
    assert error.hint is None


def test_the_time_is_for_all_attempts_together() -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    for server in cluster.servers.values():
        server.table[Q.SEND_MESSAGE_V2] = SILENCE
    error = _failing(cluster, lambda producer: producer.send(TOPIC, b"x"))
    assert isinstance(error, DeadlineError)
    assert "no answer within 3.0 s" in error.sentence
    assert error.sentence.endswith("The message may have been stored.")
    assert len(sent(cluster, "broker-a") + sent(cluster, "broker-b")) == 1


def test_a_slow_answer_leaves_the_rest_of_the_time_to_another_broker() -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    for server in cluster.servers.values():
        server.table[Q.SEND_MESSAGE_V2] = Late(2, refused(R.SERVICE_NOT_AVAILABLE))
    error = _failing(cluster, lambda producer: producer.send(TOPIC, b"x"))
    assert isinstance(error, DeadlineError)
    assert (len(sent(cluster, "broker-a")), len(sent(cluster, "broker-b"))) == (1, 1)


def test_with_no_time_left_it_is_a_time_out() -> None:
    cluster = sending_cluster("broker-a")
    cluster.servers["broker-a"].table[Q.SEND_MESSAGE_V2] = SILENCE
    assert isinstance(_failing(cluster, lambda producer: producer.send(TOPIC, b"x"), timeout_s=0), DeadlineError)


def test_routes_are_asked_for_again_before_another_attempt() -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    cluster.servers["broker-a"].table[Q.SEND_MESSAGE_V2] = refused(R.SERVICE_NOT_AVAILABLE)
    del cluster.brokers["broker-b"].topics[TOPIC]

    async def work(producer: Producer) -> SendResult:
        await producer.routes.route(TOPIC)
        cluster.brokers["broker-b"].topics[TOPIC] = cluster.brokers["broker-a"].topics[TOPIC]
        return await producer.send(TOPIC, b"x")

    assert _send(cluster, work).mq.broker_name == "broker-b"


# Batches


def test_a_batch_is_one_request_to_one_queue() -> None:
    cluster = sending_cluster("broker-a", queue_count=1)
    ((*results,),) = _send(cluster, lambda producer: _batches(producer, _messages(3)))
    (request,) = sent(cluster, "broker-a")
    assert request.code == Q.SEND_BATCH_MESSAGE
    parts = [decode_properties(part.properties) for part in iter_batch(request.body)]
    assert [part["KEYS"] for part in parts] == ["0", "1", "2"]
    assert [part["UNIQ_KEY"] for part in parts] == [result.unique_key for result in results]
    assert [(result.queue_offset, result.offset_id) for result in results] == [
        (0, "broker-a-0-0"), (1, "broker-a-0-1"), (2, "broker-a-0-2"),
    ]  # fmt: skip


def test_batches_are_split_by_size_and_by_number() -> None:
    cluster = sending_cluster("broker-a", queue_count=1)
    batches = _send(cluster, lambda producer: _batches(producer, _messages(9, 1024 * 1024)))
    assert [len(results) for results in batches] == [3, 3, 3]
    assert all(len(request.body) < 4 * 1024 * 1024 for request in sent(cluster, "broker-a"))
    batches = _send(sending_cluster("broker-a"), lambda producer: _batches(producer, _messages(2500)))
    assert [len(results) for results in batches] == [1000, 1000, 500]


def test_a_batch_that_one_broker_refuses_goes_to_another_as_a_whole() -> None:
    cluster = sending_cluster("broker-a", "broker-b")
    cluster.servers["broker-a"].table[Q.SEND_BATCH_MESSAGE] = refused(R.SYSTEM_ERROR)

    async def work(producer: Producer) -> list[list[SendResult]]:
        return [results for _ in range(4) for results in await _batches(producer, _messages(3))]

    batches = _send(cluster, work)
    assert {result.mq.broker_name for results in batches for result in results} == {"broker-b"}


def test_one_message_too_large_for_a_batch_stops_all_before_anything_is_sent() -> None:
    cluster = sending_cluster("broker-a")
    messages = [*_messages(2), *_messages(1, 4 * 1024 * 1024)]
    assert isinstance(_failing(cluster, lambda producer: _batches(producer, messages)), LocalProtocolError)
    assert sent(cluster, "broker-a") == []


def test_a_batch_that_is_stored_as_one_record_has_places_and_no_ids() -> None:
    cluster = sending_cluster("broker-a", queue_count=1)
    cluster.servers["broker-a"].table[Q.SEND_BATCH_MESSAGE] = stored("ONE", "0", 40)
    ((*results,),) = _send(cluster, lambda producer: _batches(producer, _messages(3)))
    assert [(result.queue_offset, result.offset_id) for result in results] == [(40, None), (41, None), (42, None)]


# Times


def test_a_time_goes_to_brokers_that_have_timers() -> None:
    cluster = sending_cluster("broker-a")
    cluster.servers["broker-a"].table[Q.SEND_MESSAGE_V2] = stored("ID", recallHandle="handle")

    async def work(producer: Producer) -> list[SendResult]:
        return [await producer.send(TOPIC, b"x", deliver_at_ms=5), await producer.send(TOPIC, b"x", delay_ms=7)]

    assert [result.recall_handle for result in _send(cluster, work)] == ["handle"] * 2
    given = [decode_properties(request.ext_fields["i"]) for request in sent(cluster, "broker-a")]
    assert [each.get("TIMER_DELIVER_MS", each.get("TIMER_DELAY_MS")) for each in given] == ["5", "7"]
    # Asked once, with a question that leaves no trace.
    assert cluster.servers["broker-a"].codes().count(Q.GET_MAX_OFFSET) == 1


def test_an_older_broker_would_deliver_at_once_so_it_is_not_sent() -> None:
    cluster = sending_cluster("broker-a", version=V4_9_7)
    for when in ({"deliver_at_ms": 5}, {"delay_ms": 5}):
        error = _failing(cluster, lambda producer, when=when: producer.send(TOPIC, b"x", **when))
        assert isinstance(error, RefusedError)
        assert "4.9.7, which supports only delay levels" in error.sentence
    assert sent(cluster, "broker-a") == []
    _send(cluster, lambda producer: producer.send(TOPIC, b"x", delay_level=3))
    assert len(sent(cluster, "broker-a")) == 1


# Sharding keys, messages in flight, and what is refused


def test_messages_with_a_sharding_key_go_to_one_queue_and_to_no_other_broker() -> None:
    cluster = sending_cluster("broker-a", "broker-b")

    async def work(producer: Producer) -> dict[str, set[MessageQueue]]:
        return {
            key: {(await producer.send(TOPIC, b"x", sharding_key=key)).mq for _ in range(3)}
            for key in ("u1", "u2", "u3", "u4")
        }

    # "u1".hashCode() is 3676: that modulo 4 is the place in the list, which Java sorts in the same way.
    places = [MessageQueue(TOPIC, name, queue_id) for name in ("broker-a", "broker-b") for queue_id in (0, 1)]
    found = _send(cluster, work)
    assert found == {f"u{number}": {places[(3675 + number) % 4]} for number in (1, 2, 3, 4)}
    request = sent(cluster, "broker-a")[0]
    assert decode_properties(request.ext_fields["i"])["__SHARDINGKEY"].startswith("u")
    cluster.servers["broker-a"].fail_next(Q.SEND_MESSAGE_V2, refused(R.SYSTEM_ERROR))
    assert isinstance(_failing(cluster, lambda producer: producer.send(TOPIC, b"x", sharding_key="u1")), BrokerError)


def test_submitted_messages_are_sent_side_by_side_up_to_the_limit_and_before_the_end() -> None:
    cluster = sending_cluster("broker-a", queue_count=1)
    server = cluster.servers["broker-a"]
    answer = server.table[Q.SEND_MESSAGE_V2]
    server.table[Q.SEND_MESSAGE_V2] = Late(1.0, stored("ID"))

    async def work(producer: Producer) -> list[bool]:
        async with producer:
            first = await producer.submit(TOPIC, b"1")
            second = await producer.submit(TOPIC, b"2")
            before = [first.done(), second.done()]
            third = await producer.submit(TOPIC, b"3")
            during = [first.done() or second.done(), third.done()]
        assert (await third).status is SendStatus.SEND_OK
        with pytest.raises(RefusedError, match="closed"):
            await producer.send(TOPIC, b"4")
        with pytest.raises(RefusedError, match="closed"):
            await producer.submit(TOPIC, b"4")
        with pytest.raises(RefusedError, match="closed"):
            await producer.send_message(TOPIC, make_message(b"4"))
        return [*before, *during, third.done()]

    assert _send(cluster, work, in_flight_limit=2) == [False, False, True, False, True]
    server.table[Q.SEND_MESSAGE_V2] = answer

    async def failing(producer: Producer) -> RmqctlError | None:
        server.table[Q.SEND_MESSAGE_V2] = refused(R.MESSAGE_ILLEGAL, "no")
        task = await producer.submit(TOPIC, b"x")
        await producer.flush()
        error = task.exception()
        assert isinstance(error, RmqctlError)
        return error

    assert isinstance(_send(cluster, failing), BrokerError)


@pytest.mark.parametrize(
    ("body", "options", "words"),
    [
        (b"", {}, "needs a body"),
        ("text", {}, "bytes, not str"),
        (b"x", {"keys": "k1"}, "are a list"),
        (b"x", {"keys": ["a b"]}, "'a b' is not a valid key"),
        (b"x", {"tag": "a || b"}, "not a valid tag"),
        (b"x", {"properties": {"UNIQ_KEY": "1"}}, "reserved"),
        (b"x", {"delay_level": -1}, "not negative"),
        (b"x", {"delay_level": 1, "delay_ms": 1}, "one of delay_level"),
        (b"x", {"delay_level": 1.5}, "Invalid delay_level: expected `int`"),
        (b"x", {"delay_ms": float("nan")}, "Invalid delay_ms"),
        (b"x", {"deliver_at_ms": 10**18}, "Invalid deliver_at_ms"),
        (b"x", {"tag": 5}, "Invalid tag"),
        (b"x", {"keys": [5]}, "Invalid keys"),
        (b"x", {"keys": 5}, "Invalid keys"),
        (b"x", {"properties": {"a": 5}}, "Invalid properties"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_message_that_could_not_be_read_back_is_refused(body: Any, options: Any, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        make_message(body, **options)
    assert words in raised.value.sentence


@pytest.mark.parametrize(
    "options",
    [
        {"group": "a b"}, {"group": 5}, {"timeout_s": -1}, {"timeout_s": "3"}, {"timeout_s": math.nan},
        {"retry_count": -1}, {"retry_count": 1.5}, {"in_flight_limit": 0}, {"in_flight_limit": math.nan},
        {"client": None}, {"client": [5]}, {"client": b"127.0.0.1:1"},
    ],
    ids=str,
)  # fmt: skip
def test_a_producer_with_wrong_settings_is_refused(options: Any) -> None:
    with pytest.raises(UsageError):
        Producer(**{"client": "127.0.0.1:1", **options})


@pytest.mark.parametrize(
    "delay", [{"delay_level": 2}, {"delay_ms": 8_000}, {"deliver_at_ms": 1_900_000_000_000}], ids=str
)
def test_a_batch_has_no_delays(delay: Any) -> None:
    """Brokers would deliver it at once, with success."""
    cluster = sending_cluster("broker-a")

    async def batches(producer: Producer) -> None:
        async for _ in producer.send_batches(TOPIC, [make_message(b"a"), make_message(b"b", **delay)]):
            pass

    assert isinstance(_failing(cluster, batches), UsageError)
    assert not sent(cluster, "broker-a")


def test_a_message_has_a_queue_or_a_sharding_key() -> None:
    cluster = sending_cluster("broker-a")
    mq = MessageQueue(TOPIC, "broker-a", 0)
    for options in (
        {"mq": 5},
        {"mq": mq._replace(queue_id=-1)},
        {"sharding_key": 5},
        {"mq": mq, "sharding_key": "u"},
        {"sharding_key": ""},
        {"sharding_key": "a\x01b"},
    ):
        error = _failing(cluster, lambda producer, options=options: producer.send(TOPIC, b"x", **options))
        assert isinstance(error, UsageError)
    assert sent(cluster, "broker-a") == []
