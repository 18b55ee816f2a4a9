"""What every command that asks a cluster prints as JSON, held against the shipped schemas."""

from __future__ import annotations

import json

import pytest

from tests.admin.cluster import BrokerState, Cluster, Group, held, running, subscribed
from tests.admin.message_store import MessageStore, damaged, message_cluster
from tests.cli.scripted_server import Serve, served
from tests.protocol.test_trace import AFTER, BEFORE, PUB
from tests.schemas import check_item
from tests.scripted_peer import V4_9_7, V5_4_0

from .calls import call, closed_address

Captured = pytest.CaptureFixture[str]
UNIQ = "7F00000100A418B4AAC2692623890001"

COMMANDS: dict[str, tuple[str, ...]] = {
    "OffsetList": ("offset", "show", "G"),
    "OffsetList of several": ("offset", "show", "*", "--topic", "ord*"),
    "OffsetList of none": ("offset", "show", "idle"),
    "GroupList": ("group", "list", "--system"),
    "GroupDetails": ("group", "describe", "*"),
    "MemberList": ("group", "members", "G"),
    "SubscriptionList": ("group", "subscriptions", "G"),
    "GroupConfigList": ("group", "config", "G"),
    "BrokerList": ("cluster", "list"),
    "TopicList": ("topic", "list", "--system"),
    "TopicList with stats": ("topic", "list", "--with-stats"),
    "TopicRoute": ("topic", "route", "orders"),
    "TopicStatus": ("topic", "status", "orders"),
    "Broker": ("broker", "show", "broker-a"),
    "Broker in full": ("broker", "show", "broker-a", "--config", "--runtime"),
    "MessageList of get": ("message", "get", "--topic", "orders", "--queue", "broker-a:0", "--offset", "0"),
    "MessageList as JSON": ("message", "find", "orders", "--body", "json"),
    "MessageList without bodies": ("message", "find", "orders", "--body", "none"),
    "MessageList in part": ("message", "find", "orders", "--max-body", "3", "--limit", "2"),
    "MessageList by key": ("message", "find", "orders", "--key", "k1"),
    "MessageList of peek": ("offset", "peek", "G", "--topic", "orders"),
    "DeadLetterGroupList": ("dlq", "list"),
    "DeadLetterList": ("dlq", "show", "G"),
    "DeadLetterStats": ("dlq", "stats", "G"),
    "MessageTrace": ("message", "trace", "--key", "k1"),
}  # fmt: skip
# Asked of broker-a alone, or of the name server, so that nothing is missing while broker-b is down.
_WHOLE = {"Broker", "Broker in full", "MessageList of get"}


def _cluster(version: int) -> Cluster:
    """Return two brokers with messages of every kind: text, JSON, no UTF-8, damaged; and a group that reads them."""
    stores = []
    member = running({("orders", "broker-a", 0): held(1, 1, 1, 1)}, subscriptions=[subscribed("orders")])
    for name in ("broker-a", "broker-b"):
        state = BrokerState(name, version, configured={"G", "idle", "TOOLS_CONSUMER"})
        store = MessageStore(state)
        store.put("orders", 0, body=b'{"n":1}', tag="A", keys="k1 k2", uniq=UNIQ)
        store.put("orders", 0, body=b"\xff\xfe\x00")
        store.put("orders", 0, body=b"")
        store.put("orders", 1, body="zażółć gęślą jaźń".encode())
        broken = store.put("orders", 1)
        broken.record = damaged(broken.record)
        store.put("%DLQ%G", 0, body=b"\xff", tag="A", keys="k1", more={"RETRY_TOPIC": "orders"})
        store.put("RMQ_SYS_TRACE_TOPIC", 0, body=PUB + BEFORE + AFTER, keys="FD02 k1")
        state.groups["G"] = Group({"c1": member}, ("orders",))
        state.offsets["G"] = {"orders": {0: 1}}
        stores.append(store)
    return message_cluster(*stores)


@pytest.fixture(params=[V4_9_7, V5_4_0], ids=["4.9.7", "5.4.0"])
def whole(request: pytest.FixtureRequest, serve: Serve) -> None:
    serve(_cluster(request.param))


@pytest.fixture
def partial(serve: Serve) -> None:
    serve(_cluster(V5_4_0), down=["broker-b"])


def _check(what: str, code: int, capsys: Captured) -> None:
    """Run a command for a document, which `call` checks, and for lines."""
    argv = COMMANDS[what]
    result = call(capsys, *argv, "-o", "json")
    assert result.code == code, result.err
    document = json.loads(result.out)
    assert document["kind"] == what.split(maxsplit=1)[0]
    assert document["items"] or what == "OffsetList of none"
    assert bool(document["errors"]) == (code != 0)
    lines = call(capsys, *argv, "-o", "jsonl").out.splitlines()
    assert len(lines) == len(document["items"])
    for line in lines:
        check_item(document["kind"], json.loads(line))


@pytest.mark.parametrize("what", COMMANDS)
@pytest.mark.usefixtures("whole")
def test_a_whole_document(what: str, capsys: Captured) -> None:
    # One of all messages cannot be read.
    _check(what, 8 if what in ("MessageList as JSON", "MessageList without bodies") else 0, capsys)


@pytest.mark.parametrize("what", COMMANDS)
@pytest.mark.usefixtures("partial")
def test_a_document_in_part(what: str, capsys: Captured) -> None:
    _check(what, 0 if what in _WHOLE else 8, capsys)


@pytest.mark.usefixtures("whole")
def test_followed_messages_are_items(capsys: Captured) -> None:
    result = call(capsys, "message", "tail", "orders", "--last", "3", "--count", "3", "-o", "jsonl")
    assert result.code == 0
    for line in result.out.splitlines():
        check_item("MessageList", json.loads(line))


@pytest.mark.parametrize("text", [UNIQ, "0A0000010000A4B100000000000002F1", "01A4B1C2D3E4F5001234567800000001AB"])
def test_what_an_id_says(text: str, capsys: Captured) -> None:
    assert json.loads(call(capsys, "message", "decode-id", text, "-o", "json").out)["items"]


def test_contexts_and_checks(config_file: object, capsys: Captured) -> None:
    with served(_cluster(V5_4_0)) as address:
        assert call(capsys, "context", "set", "dev", f"namesrv={address}").code == 0
        assert call(capsys, "context", "set", "gone", f"namesrv={closed_address()}").code == 0
        assert json.loads(call(capsys, "context", "list", "-o", "json").out)["kind"] == "ContextList"
        assert json.loads(call(capsys, "context", "show", "dev", "-o", "json").out)["items"][0]["context"] == "dev"
        tested = json.loads(call(capsys, "context", "test", "-o", "json").out)["items"]
        assert [item["status"] for item in tested] == ["OK", "FAILED"]
        assert json.loads(call(capsys, "doctor", "--context", "dev", "-o", "json").out)["kind"] == "Doctor"
