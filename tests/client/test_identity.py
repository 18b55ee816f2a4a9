from __future__ import annotations

import pytest

from rmqctl.client.identity import ServerKind, identify
from rmqctl.errors import BrokerError, NotAuthorisedError, RmqctlError, UnreachableError, UsageError
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.scripted_peer import SILENCE, Reply, ScriptedNetwork, ok, passing, refused, run

_NO_ROUTE = refused(R.TOPIC_NOT_EXIST, "No topic route info in name server for the topic: TBW102")
_UNSIGNED = refused(R.NO_PERMISSION, "username cannot be null.")
_UNSIGNED_4_9 = refused(1, "org.apache.rocketmq.acl.common.AclException: No accessKey is configured")
_CLUSTER_INFO = ok(b'{"brokerAddrTable":{},"clusterAddrTable":{}}')


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ({Q.GET_BROKER_CLUSTER_INFO: _CLUSTER_INFO, Q.GET_ROUTEINFO_BY_TOPIC: _NO_ROUTE}, ServerKind.NAME_SERVER),
        # 4.9's name server never answers a code that it does not know, so it must not be asked one.
        (
            {Q.GET_BROKER_CLUSTER_INFO: _CLUSTER_INFO, Q.GET_BROKER_CONFIG: SILENCE, Q.GET_ROUTEINFO_BY_TOPIC: SILENCE},
            ServerKind.NAME_SERVER,
        ),
        ({Q.GET_BROKER_CONFIG: ok(b"brokerName=a\n")}, ServerKind.BROKER),
        ({Q.GET_BROKER_CONFIG: refused(1, "java.lang.NullPointerException")}, ServerKind.BROKER),
        # Brokers with access control refuse also what they do not know.
        (
            dict.fromkeys((Q.GET_BROKER_CLUSTER_INFO, Q.GET_BROKER_CONFIG, Q.GET_ROUTEINFO_BY_TOPIC), _UNSIGNED),
            ServerKind.BROKER,
        ),
        (
            dict.fromkeys((Q.GET_BROKER_CLUSTER_INFO, Q.GET_BROKER_CONFIG, Q.GET_ROUTEINFO_BY_TOPIC), _UNSIGNED_4_9),
            ServerKind.BROKER,
        ),
        ({Q.GET_ROUTEINFO_BY_TOPIC: _NO_ROUTE}, ServerKind.PROXY),
        ({Q.GET_ROUTEINFO_BY_TOPIC: _UNSIGNED}, ServerKind.PROXY),
        ({}, ServerKind.UNKNOWN),
    ],
    ids=[
        *("name server", "name server 4.9", "broker", "broken broker", "broker with authentication", "broker with ACL"),
        *("proxy", "proxy with authentication", "none"),
    ],
)
async def test_a_server_is_known_by_what_it_answers_to(table: dict[int, Reply], kind: ServerKind) -> None:
    network = ScriptedNetwork()
    network.add("a:1", table)
    async with network.client("a:1") as client:
        assert await passing(network.clock, identify(client.ask, "a:1")) is kind


async def test_a_silent_server_is_unreachable_and_of_no_kind() -> None:
    network = ScriptedNetwork()
    network.add("a:1", {Q.GET_BROKER_CLUSTER_INFO: SILENCE})
    async with network.client("a:1") as client:
        with pytest.raises(UnreachableError, match="no answer within"):
            await passing(network.clock, identify(client.ask, "a:1"))


def _cluster_error(table: dict[int, Reply]) -> RmqctlError:
    async def scenario() -> RmqctlError:
        network = ScriptedNetwork()
        network.refusing.add("gone:1")
        network.add("a:1", table)
        async with network.client("gone:1", "a:1") as client:
            with pytest.raises(RmqctlError) as caught:
                await passing(network.clock, client.cluster())
        return caught.value

    return run(scenario())


def test_a_broker_in_place_of_a_name_server_is_named_as_one() -> None:
    for table in ({Q.GET_BROKER_CONFIG: ok()}, {Q.GET_BROKER_CONFIG: _UNSIGNED, Q.GET_BROKER_CLUSTER_INFO: _UNSIGNED}):
        error = _cluster_error(table)
        assert isinstance(error, UsageError)
        assert error.sentence == "a:1 is a broker, not a name server."


def test_a_proxy_in_place_of_a_name_server_is_named_as_one() -> None:
    error = _cluster_error({Q.GET_ROUTEINFO_BY_TOPIC: _NO_ROUTE})
    assert isinstance(error, UsageError)
    assert error.sentence == "a:1 is a proxy, which cannot list the cluster."


def test_whatever_else_it_is_its_own_answer_is_told() -> None:
    error = _cluster_error({})
    assert isinstance(error, BrokerError)
    assert error.code == R.REQUEST_CODE_NOT_SUPPORTED
    # Proxies may be closed off as a whole: then the refusal is what there is to say.
    refused_whole = _cluster_error({Q.GET_BROKER_CLUSTER_INFO: _UNSIGNED})
    assert isinstance(refused_whole, NotAuthorisedError)
