from __future__ import annotations

import json

import pytest

from rmqctl.admin.messages.lookup import LookupReport, find_by_ids, find_by_offset
from rmqctl.admin.topics.queues import parse_queue_choice
from rmqctl.errors import NotFoundError, UnreachableError, UsageError
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.message_id import encode_offset_id
from tests.admin.cluster import BrokerState, Cluster
from tests.admin.message_store import MessageStore, damaged, message_cluster
from tests.scripted_peer import ok, passing, refused, run

UNIQ = "7F00000100A418B4AAC2692623890003"


def _cluster() -> tuple[Cluster, MessageStore]:
    store = MessageStore(BrokerState("broker-a"))
    for number in range(10):
        store.put("T", 0, body=str(number).encode(), uniq=f"{UNIQ[:-1]}{number}")
    cluster = message_cluster(store)
    # Where the store host of the messages says that they are.
    cluster.addresses["broker-a"] = "10.0.0.1:10911"
    cluster.network.servers["10.0.0.1:10911"] = cluster.servers["broker-a"]
    return cluster, store


def _offset_id(store: MessageStore, offset: int) -> str:
    return encode_offset_id(bytes([10, 0, 0, 1]), 10911, store.queues["T", 0][offset].commit_log_offset)


def _by_ids(cluster: Cluster, *ids: str, topic: str | None = None) -> LookupReport:
    async def scenario() -> LookupReport:
        async with cluster.client() as client:
            return await find_by_ids(client, list(ids), topic)

    return run(passing(cluster.clock, scenario()))


def _bodies(lookup: LookupReport) -> list[bytes]:
    return [found.message.body for found in lookup.found if found.message is not None]


def test_a_brokers_id_is_asked_of_that_broker() -> None:
    cluster, store = _cluster()
    lookup = _by_ids(cluster, _offset_id(store, 3), _offset_id(store, 1))
    assert _bodies(lookup) == [b"3", b"1"]
    assert (lookup.found[0].mq.topic, lookup.found[0].queue_offset) == ("T", 3)


def test_an_address_in_an_id_is_never_called_unless_it_is_a_brokers() -> None:
    cluster, _ = _cluster()
    far = encode_offset_id(bytes([192, 0, 2, 66]), 10911, 0)
    with pytest.raises(UsageError, match="outside this cluster"):
        _by_ids(cluster, far)
    with pytest.raises(NotFoundError):
        _by_ids(cluster, far, topic="T")
    assert "192.0.2.66:10911" not in cluster.network.attempts


def test_a_unique_key_needs_a_topic() -> None:
    cluster, _ = _cluster()
    with pytest.raises(UsageError, match="--topic is required"):
        _by_ids(cluster, UNIQ)
    assert _bodies(_by_ids(cluster, UNIQ, topic="T")) == [b"3"]


def test_an_id_that_reads_as_a_brokers_but_is_none_is_looked_for_as_a_unique_key() -> None:
    cluster, store = _cluster()
    like = encode_offset_id(bytes([10, 0, 0, 1]), 10911, 99_999)
    store.put("T", 1, body=b"unlikely", uniq=like)
    assert _bodies(_by_ids(cluster, like, topic="T")) == [b"unlikely"]
    with pytest.raises(NotFoundError, match=r"at offset 99999 of 10\.0\.0\.1:10911"):
        _by_ids(cluster, like)


def test_a_place_in_the_middle_of_a_message_is_none() -> None:
    cluster, store = _cluster()
    server = cluster.servers["broker-a"]
    for reply in (store.queues["T", 0][5].record, damaged(store.queues["T", 0][3].record)):
        server.fail_next(Q.VIEW_MESSAGE_BY_ID, ok(reply))
        with pytest.raises(NotFoundError):
            _by_ids(cluster, _offset_id(store, 3))


def test_of_several_ids_those_that_are_not_found_are_named() -> None:
    cluster, store = _cluster()
    lookup = _by_ids(cluster, _offset_id(store, 3), f"{UNIQ[:-4]}FFFF", topic="T")
    assert _bodies(lookup) == [b"3"]
    assert [failure.what for failure in lookup.failures] == [f"message {UNIQ[:-4]}FFFF"]


def test_of_several_ids_an_error_of_one_hides_no_other() -> None:
    cluster, store = _cluster()
    server = cluster.servers["broker-a"]
    server.fail_next(Q.VIEW_MESSAGE_BY_ID, refused(R.NO_PERMISSION, "no"))
    lookup = _by_ids(cluster, _offset_id(store, 3), _offset_id(store, 4), f"{UNIQ[:-1]}5")
    assert _bodies(lookup) == [b"4"]
    assert [failure.error.exit_code for failure in lookup.failures] == [4, 2]


def test_a_slave_that_answers_for_its_master_is_told() -> None:
    cluster, _ = _cluster()
    slave = "10.0.0.1:10922"
    cluster.network.servers[slave] = cluster.servers["broker-a"]
    cluster.network.refusing.add("10.0.0.1:10911")
    addresses = {"0": "10.0.0.1:10911", "1": slave}
    queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
    brokers = {"cluster": "C", "brokerName": "broker-a", "brokerAddrs": addresses}
    route = json.dumps({"queueDatas": [queues], "brokerDatas": [brokers]}).encode()
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = ok(route)

    async def scenario() -> LookupReport:
        async with cluster.client() as client:
            # The master may have messages that the slave has not copied.
            with pytest.raises(UnreachableError, match="was not found, but the master of broker-a"):
                await find_by_offset(client, "T", parse_queue_choice("broker-a:0"), 10_000, 1)
            return await find_by_offset(client, "T", parse_queue_choice("broker-a:0"), 3, 1)

    lookup = run(passing(cluster.clock, scenario()))
    assert _bodies(lookup) == [b"3"]
    assert [failure.what for failure in lookup.failures] == ["master, its slave answered"]


@pytest.mark.parametrize("text", ["", "zz", "7F00", UNIQ + "00", "-" * 32, "٣" * 32])
def test_what_is_no_id_is_refused_before_anybody_is_asked(text: str) -> None:
    cluster, _ = _cluster()
    with pytest.raises(UsageError, match="not a message id"):
        _by_ids(cluster, text)
    assert cluster.network.attempts == []


def test_an_id_of_a_5x_sdk_is_a_unique_key() -> None:
    cluster, store = _cluster()
    client_id = "01ABCDEF12345617D9123456780000000A"
    store.put("T", 0, body=b"sdk", uniq=client_id)
    assert _bodies(_by_ids(cluster, client_id, topic="T")) == [b"sdk"]


def _by_place(cluster: Cluster, queue: str, offset: int, count: int = 1) -> LookupReport:
    async def scenario() -> LookupReport:
        async with cluster.client() as client:
            return await find_by_offset(client, "T", parse_queue_choice(queue), offset, count)

    return run(passing(cluster.clock, scenario()))


def test_a_place_in_a_queue_is_read() -> None:
    cluster, _ = _cluster()
    assert _bodies(_by_place(cluster, "broker-a:0", 8, 5)) == [b"8", b"9"]


def test_a_place_that_is_not_there_says_what_is() -> None:
    cluster, store = _cluster()
    with pytest.raises(NotFoundError) as caught:
        _by_place(cluster, "broker-a:0", 10)
    assert caught.value.hint == "Use an offset from 0 to 9."
    store.delete_before("T", 0, 4)
    with pytest.raises(NotFoundError) as caught:
        _by_place(cluster, "broker-a:0", 3)
    assert caught.value.hint == "Use an offset from 4 to 9."
    store.delete_before("T", 0, 10)
    with pytest.raises(NotFoundError) as caught:
        _by_place(cluster, "broker-a:0", 3)
    assert caught.value.hint == "The queue is empty; its next offset is 10."


def test_an_unreadable_message_is_shown_as_such() -> None:
    cluster, store = _cluster()
    store.queues["T", 0][5].record = damaged(store.queues["T", 0][5].record)
    lookup = _by_place(cluster, "broker-a:0", 4, 3)
    assert [(found.queue_offset, found.message is None) for found in lookup.found] == [
        (4, False),
        (5, True),
        (6, False),
    ]
