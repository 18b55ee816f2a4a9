"""`message resend` on a sandbox: what one group gets again, what is refused, and what is journaled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes.resend import apply as resend
from rmqctl.model.names import PROXY_GROUP
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result, call
from tests.cli.change.seeded_sandbox import GROUP, TOPIC, document, seeded
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import send

Captured = pytest.CaptureFixture[str]
JSON = ("--yes", "-o", "json")


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """T has 10 messages in each of two queues; G has read the first 6 of each, and has no members."""
    with seeded(getattr(request, "param", "5.4.0"), unique=True) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def _id(capsys: Captured, queue_offset: int = 3, topic: str = TOPIC) -> str:
    """Return the broker's id of a message."""
    words = ("message", "get", "--topic", topic, "--queue", "broker-a:0", "--offset", str(queue_offset))
    found: str = document(call(capsys, *words, "-o", "json"))["items"][0]["offsetMsgId"]
    return found


def _join(sandbox: ThreadedSandbox, direct: str | None = None, group: str = GROUP, **data: Any) -> None:
    """Let a member join; `direct` is what its listener answers (CMResult), None to answer nothing."""
    body = None if direct is None else json.dumps({"consumeResult": direct, "spentTimeMills": 7}).encode()

    async def connect(inner: Sandbox) -> None:
        peer = await Peer.of_broker(inner, direct=body)
        await peer.heartbeat("c1", consumer_data(group, subscription(TOPIC), **data))

    sandbox.run(connect(sandbox.sandbox))


def _resend(capsys: Captured, identity: str, *words: str) -> Result:
    return call(capsys, "message", "resend", identity, "--group", GROUP, *words)


def _codes(result: Result) -> set[str]:
    return {each["code"] for each in document(result)["consequences"]}


@pytest.mark.parametrize("sandbox", ["5.4.0", "4.9.7"], indirect=True)
def test_a_group_gets_a_copy_once(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    identity = _id(capsys)
    plan = _resend(capsys, identity, "--dry-run", "-o", "json")
    assert _codes(plan) == {"COPY", "PASSED", "NO_MEMBERS"}
    done = _resend(capsys, identity, *JSON)
    assert done.code == 0, done.err
    (item,) = document(done)["items"]
    assert (item["route"], item["result"], item["messages"][0]["queueOffset"]) == ("RETRY_TOPIC", "CONFIRMED", 3)

    again = _resend(capsys, identity, *JSON)
    assert (again.code, document(done)["id"] in again.err) == (1, True)
    assert _resend(capsys, identity, *JSON, "--again").code == 0
    listed = document(call(capsys, "offset", "history", GROUP, "-o", "json"))["items"]
    assert [(each["operation"], each["confirmedCount"]) for each in listed] == [("message resend", 1)] * 2
    assert call(capsys, "offset", "undo", document(done)["id"], "--yes").code == 1


@pytest.mark.parametrize(
    ("answer", "code", "result"),
    [("CR_SUCCESS", 0, "CONFIRMED"), ("CR_COMMIT", 0, "CONFIRMED"), ("CR_LATER", 1, "UNCHANGED"), (None, 9, "UNKNOWN")],
)
def test_a_member_consumes_it_directly(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, answer: str | None, code: int,
    result: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(resend, "_DIRECT_S", 0.5)
    _join(sandbox, answer)
    done = _resend(capsys, _id(capsys), "--direct", *JSON)
    assert (done.code, document(done)["items"][0]["result"]) == (code, result), done.err
    assert (answer or "no answer") in document(done)["items"][0]["note"]


def test_a_saved_plan_resends_once(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    plan, identity = tmp_path / "plan.json", _id(capsys, queue_offset=8)
    assert _resend(capsys, identity, "--plan", str(plan)).code == 0
    assert _codes(_resend(capsys, identity, "--dry-run", "-o", "json")) == {"COPY", "NOT_PASSED", "NO_MEMBERS"}
    assert call(capsys, "apply", str(plan), "--yes").code == 0
    assert call(capsys, "apply", str(plan), "--yes").code == 7


@pytest.mark.parametrize("field", ["retryMaxTimes=0", "consumeEnable=false"])
def test_a_saved_plan_is_for_the_group_as_it_was(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, field: str
) -> None:
    plan = tmp_path / "plan.json"
    assert _resend(capsys, _id(capsys), "--plan", str(plan)).code == 0
    call(capsys, "group", "update", GROUP, "--set", field, *JSON)
    assert call(capsys, "apply", str(plan), "--yes").code == 1
    assert _resend(capsys, _id(capsys), "--yes").code == 1
    call(capsys, "group", "update", GROUP, "--set", "retryMaxTimes=16", "--set", "consumeEnable=true", *JSON)
    _join(sandbox, model="BROADCASTING")
    assert call(capsys, "apply", str(plan), "--yes").code == 7


def test_a_broker_that_stores_no_copy_is_named(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.call(lambda inner: inner.brokers["broker-a"].refuse_writes())
    refused = _resend(capsys, _id(capsys), "--yes")
    assert (refused.code, "brokerPermission=4" in refused.err) == (1, True)


def test_another_message_at_the_same_place_is_another(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    assert _resend(capsys, _id(capsys, queue_offset=0), *JSON).code == 0
    call(capsys, "topic", "delete", TOPIC, *JSON)
    sandbox.create_topic(TOPIC, queues=2)
    sandbox.run(_send(sandbox.sandbox, TOPIC))
    assert _resend(capsys, _id(capsys, queue_offset=0), *JSON).code == 0


@pytest.mark.parametrize(
    ("data", "words", "code", "said"),
    [
        ({"model": "BROADCASTING"}, (), 1, "broadcasting"),
        ({"consumeType": "CONSUME_POP"}, (), 1, "pops"),
        ({"consumeType": "CONSUME_ACTIVELY"}, (), 1, "pulls"),
        ({}, ("--direct", "--client", "c2"), 5, "c2"),
        ({}, ("--client", "c1"), 2, "--direct"),
    ],
)
def test_what_a_group_cannot_get(
    sandbox: ThreadedSandbox, capsys: Captured, data: dict[str, Any], words: tuple[str, ...], code: int, said: str
) -> None:
    _join(sandbox, **data)
    refused = _resend(capsys, _id(capsys), *words, "--yes")
    assert (refused.code, said in refused.err) == (code, True), refused.err


def test_what_is_no_message_of_an_application(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    identity = _id(capsys)
    assert _resend(capsys, identity, "--direct", "--yes").code == 1  # no member
    assert call(capsys, "message", "resend", identity, "--group", "H", "--yes").code == 5
    assert _resend(capsys, "7F0000010000000100000000000000FF", "--yes").code == 2
    sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.SYSTEM_ERROR)
    refused = _resend(capsys, identity, *JSON)
    assert (refused.code, document(refused)["items"][0]["result"]) == (1, "UNCHANGED")
    assert _resend(capsys, identity, *JSON).code == 0  # what was refused may be sent again
    sandbox.run(_send(sandbox.sandbox, f"%DLQ%{GROUP}"))
    dead = _resend(capsys, _id(capsys, queue_offset=0, topic=f"%DLQ%{GROUP}"), "--yes")
    assert (dead.code, "dlq replay" in dead.err) == (1, True)


def test_nothing_is_sent_back_that_cannot_be_seen(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    identity = _id(capsys)
    sandbox.faults.answer(Q.QUERY_MESSAGE, R.NO_PERMISSION, count=None)
    refused = _resend(capsys, identity, *JSON)
    assert (refused.code, json.loads(refused.err)["name"]) == (4, "NOT_AUTHORISED")
    sandbox.faults.clear()
    assert _resend(capsys, identity, *JSON).code == 0  # without --again


def test_an_id_alone_names_no_topic(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    identity = _id(capsys)
    said = "User:u has no permission to access Topic: from 127.0.0.1, no matched policies."
    sandbox.faults.answer(Q.VIEW_MESSAGE_BY_ID, R.NO_PERMISSION, remark=said, count=None)
    refused = _resend(capsys, identity, "--yes")
    assert (refused.code, "--topic TOPIC" in refused.err) == (4, True), refused.err


def test_members_behind_proxies_are_unknown(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _join(sandbox, group=PROXY_GROUP)
    identity = _id(capsys)
    assert "MEMBERS_UNKNOWN" in _codes(_resend(capsys, identity, "--dry-run", "-o", "json"))
    refused = _resend(capsys, identity, "--direct", "--yes")
    assert (refused.code, "It may have others (BEHIND_PROXY)." in refused.err) == (1, True), refused.err


async def _send(inner: Sandbox, topic: str) -> None:
    peer = await Peer.of_broker(inner)
    await send(peer, topic, 0, count=1)
    await peer.aclose()
