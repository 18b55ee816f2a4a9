"""Offsets that are written: to whom it goes, how often, and what is made of the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from rmqctl.admin.offsets.write import push_stored_offsets, reset_offset, store_offset
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, NotAuthorisedError, RemoteProtocolError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, running
from tests.scripted_peer import DROP, SILENCE, V4_9_7, V5_4_0, Reply, ok, passing, refused, run

_T = TypeVar("_T")
_MQ = MessageQueue("T", "broker-a", 0)
_SERVER_SIDE = {"useServerSideResetOffset": "true"}


def _cluster(version: int = V5_4_0, *, server_side: bool = True, online: bool = False) -> Cluster:
    state = BrokerState("broker-a", version, topics={"T": [Queue(100, 10), Queue(5)]}, configured={"G"})
    state.offsets["G"] = {"T": {0: 50, 1: 5}}
    if server_side:
        state.settings |= _SERVER_SIDE
    if online:
        state.groups["G"] = Group({"c1": running()})
    return Cluster(state)


def _ask(cluster: Cluster, call: Callable[[Client], Awaitable[_T]], timeout_s: float = 3) -> _T:
    async def scenario() -> _T:
        async with cluster.client(timeout_s) as client:
            return await call(client)

    return run(passing(cluster.clock, scenario()))


def _stored(cluster: Cluster, queue_id: int = 0) -> int:
    return cluster.brokers["broker-a"].offsets["G"]["T"][queue_id]


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
@pytest.mark.parametrize("offset", [0, 20, 100, -1])
def test_an_offset_is_stored(version: int, offset: int) -> None:
    cluster = _cluster(version)
    assert _ask(cluster, lambda client: store_offset(client, "a:1", "G", _MQ, offset)) is True
    assert (_stored(cluster), _stored(cluster, 1)) == (offset, 5)


def test_a_success_that_stored_nothing_is_told_apart() -> None:
    cluster = _cluster()
    _ask(cluster, lambda client: reset_offset(client, "a:1", "G", _MQ, 20))
    assert _ask(cluster, lambda client: store_offset(client, "a:1", "G", _MQ, 30)) is False
    assert _stored(cluster) == 20
    other = _MQ._replace(queue_id=1)
    assert _ask(cluster, lambda client: store_offset(client, "a:1", "G", other, 3)) is True
    # A second reset goes over the first.
    _ask(cluster, lambda client: reset_offset(client, "a:1", "G", _MQ, 30))
    assert _stored(cluster) == 30


def test_a_remark_beside_success_that_says_something_else_is_success() -> None:
    cluster = _cluster()
    for remark in (None, "", "fine", "Offset has been previously reset."):
        answer = refused(R.SUCCESS, remark)
        cluster.servers["broker-a"].fail_next(Q.UPDATE_CONSUMER_OFFSET, answer)
        assert _ask(cluster, lambda client: store_offset(client, "a:1", "G", _MQ, 30)) is True


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (R.SUBSCRIPTION_GROUP_NOT_EXIST, BrokerError), (R.TOPIC_NOT_EXIST, BrokerError),
        (R.NO_PERMISSION, NotAuthorisedError), (R.SYSTEM_ERROR, BrokerError),
    ],
)  # fmt: skip
def test_refusals_are_errors_with_the_brokers_words(code: int, error: type[Exception]) -> None:
    for write, request in ((store_offset, Q.UPDATE_CONSUMER_OFFSET), (reset_offset, Q.INVOKE_BROKER_TO_RESET_OFFSET)):
        cluster = _cluster()
        cluster.servers["broker-a"].table[request] = refused(code, "no way")
        with pytest.raises(error, match="no way"):
            _ask(cluster, lambda client, write=write: write(client, "a:1", "G", _MQ, 30))  # type: ignore[misc]
        assert _stored(cluster) == 50


@pytest.mark.parametrize(("offset", "is_taken"), [(9, False), (10, True), (101, True), (102, False)])
def test_a_broker_refuses_an_offset_that_it_does_not_have(offset: int, is_taken: bool) -> None:
    cluster = _cluster()
    if is_taken:
        _ask(cluster, lambda client: reset_offset(client, "a:1", "G", _MQ, offset))
    else:
        with pytest.raises(BrokerError, match="not in consume queue range"):
            _ask(cluster, lambda client: reset_offset(client, "a:1", "G", _MQ, offset))
    assert _stored(cluster) == (offset if is_taken else 50)


def test_a_fixed_value_may_be_sent_again_when_the_connection_ends() -> None:
    for request, write in ((Q.UPDATE_CONSUMER_OFFSET, store_offset), (Q.INVOKE_BROKER_TO_RESET_OFFSET, reset_offset)):
        cluster = _cluster()
        server = cluster.servers["broker-a"]
        server.fail_next(request, DROP)
        _ask(cluster, lambda client, write=write: write(client, "a:1", "G", _MQ, 20))  # type: ignore[misc]
        assert server.codes().count(request) == 2
        assert _stored(cluster) == 20


@pytest.mark.parametrize("reply", [DROP, SILENCE], ids=["drop", "silence"])
def test_a_push_is_never_sent_twice(reply: Reply) -> None:
    cluster = _cluster(V4_9_7, server_side=False, online=True)
    server = cluster.servers["broker-a"]
    server.table[Q.INVOKE_BROKER_TO_RESET_OFFSET] = reply
    with pytest.raises(UnreachableError):
        _ask(cluster, lambda client: push_stored_offsets(client, "a:1", "G", "T", for_cpp=False))
    assert server.codes() == [Q.INVOKE_BROKER_TO_RESET_OFFSET]


def test_a_push_that_a_busy_broker_did_not_take_is_sent_again() -> None:
    cluster = _cluster(V4_9_7, server_side=False, online=True)
    server = cluster.servers["broker-a"]
    server.fail_next(Q.INVOKE_BROKER_TO_RESET_OFFSET, refused(R.SYSTEM_BUSY, "[REJECTREQUEST]system busy"))
    told = _ask(cluster, lambda client: push_stored_offsets(client, "a:1", "G", "T", for_cpp=False))
    assert told == {_MQ: 50, _MQ._replace(queue_id=1): 5}
    assert len(cluster.brokers["broker-a"].pushed) == 1


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
@pytest.mark.parametrize("for_cpp", [False, True])
def test_a_push_tells_what_the_clients_were_told(version: int, for_cpp: bool) -> None:
    cluster = _cluster(version, server_side=False, online=True)
    state = cluster.brokers["broker-a"]
    state.offsets["G"]["T"][1] = 999
    told = _ask(cluster, lambda client: push_stored_offsets(client, "a:1", "G", "T", for_cpp=for_cpp))
    # Nobody is sent further than the end.
    assert told == {_MQ: 50, _MQ._replace(queue_id=1): 5}
    ((group, topic, offsets, language),) = state.pushed
    assert (group, topic, offsets) == ("G", "T", {0: 50, 1: 5})
    assert (language == "CPP") is for_cpp


def test_a_push_that_can_not_be_is_an_error() -> None:
    cluster = _cluster(V4_9_7, server_side=False)
    with pytest.raises(BrokerError, match="Consumer not online"):
        _ask(cluster, lambda client: push_stored_offsets(client, "a:1", "G", "T", for_cpp=False))
    del cluster.brokers["broker-a"].offsets["G"]["T"][1]
    with pytest.raises(BrokerError, match="<G> not exist"):
        _ask(cluster, lambda client: push_stored_offsets(client, "a:1", "G", "T", for_cpp=False))


@pytest.mark.parametrize(
    "body", [b"", b"x", b"{}", b'{"offsetTable":{}', b'{"offsetTable":{"x":1}}', b'{"offsetTable":[]}'], ids=repr
)
def test_an_answer_that_can_not_be_read_is_no_success(body: bytes) -> None:
    cluster = _cluster(V4_9_7, server_side=False, online=True)
    cluster.servers["broker-a"].table[Q.INVOKE_BROKER_TO_RESET_OFFSET] = ok(body)
    with pytest.raises(RemoteProtocolError):
        _ask(cluster, lambda client: push_stored_offsets(client, "a:1", "G", "T", for_cpp=False))
