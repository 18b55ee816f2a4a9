"""Groups and topics of lite topics (RIP-83) are named as such, and refused where a command makes no sense for them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rmqctl.protocol.codes import RequestCode
from rmqctl.sandbox import Sandbox
from tests.cli.change.seeded_sandbox import seeded
from tests.sandbox.peer import Peer

from .calls import call

Captured = pytest.CaptureFixture[str]

GROUP = "lite-group"


async def _make(sandbox: Sandbox) -> None:
    peer = await Peer.of_broker(sandbox)
    await peer.ask_ok(
        RequestCode.UPDATE_AND_CREATE_TOPIC, topic="Parent", defaultTopic="TBW102", readQueueNums=4, writeQueueNums=4,
        perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false", attributes="+message.type=LITE",
    )  # fmt: skip
    attributes = {"+lite.bind.topic": "Parent", "+lite.sub.model": "Shared"}
    config = {"groupName": GROUP, "attributes": attributes}
    await peer.ask_ok(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, config)
    await peer.aclose()
    sandbox.brokers["broker-a"].offsets.store(GROUP, "%LMQ%$Parent$one", 0, 7)


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with seeded("5.5.0") as sandbox:
        sandbox.run(_make(sandbox.sandbox))
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        yield


def test_they_are_named(capsys: Captured) -> None:
    groups = {item["group"]: item for item in json.loads(call(capsys, "group", "list", "-o", "json").out)["items"]}
    assert {name: item["liteBindTopic"] for name, item in groups.items()} == {GROUP: "Parent", "G": None}
    assert groups["G"]["reasons"]["liteBindTopic"] == "NOT_LITE"
    (item,) = json.loads(call(capsys, "group", "describe", GROUP, "-o", "json").out)["items"]
    assert item["liteBindTopic"] == "Parent"
    topics = {item["topic"]: item for item in json.loads(call(capsys, "topic", "list", "-o", "json").out)["items"]}
    assert topics["Parent"]["messageType"] == "LITE"
    summary = json.loads(call(capsys, "topic", "status", "Parent", "-o", "json").out)["summary"]
    assert (summary["liteGroups"], summary["groups"]) == ([GROUP], [])
    assert "No group consumes it" not in call(capsys, "topic", "status", "Parent").err


@pytest.mark.parametrize(
    "words",
    [
        ("offset", "reset", GROUP, "--topic", "Parent", "--to-earliest", "--dry-run"),
        ("offset", "clone", "G", GROUP, "--dry-run"),
        ("offset", "delete", GROUP, "--topic", "%LMQ%$Parent$one", "--dry-run"),
        ("whatif", "allocate", GROUP),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], capsys: Captured) -> None:
    result = call(capsys, *words)
    assert (result.code, "lite topics of Parent" in result.err) == (1, True), result.err
