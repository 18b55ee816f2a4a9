"""`topic create`, `update` and `delete` on a sandbox: what is shown, written, refused, read back and undone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes import late_writes
from rmqctl.changes.documents.encode import sum_of
from rmqctl.changes.journal.group_lock import group_lock
from rmqctl.model.plan import Subject
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result, call
from tests.cli.change.seeded_sandbox import TOPIC, document, join, seeded, store, stored
from tests.sandbox.peer import Peer
from tests.sandbox.progress import send

Captured = pytest.CaptureFixture[str]
JSON = ("--yes", "-o", "json")
FOUR_9 = pytest.mark.parametrize("sandbox", ["4.9.7"], indirect=True)
BOTH = pytest.mark.parametrize("sandbox", ["5.4.0", "4.9.7"], indirect=True)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Two brokers; T has 10 messages in queues 0 and 1 of each, G has read the first 6 of each."""
    with seeded(getattr(request, "param", "5.4.0"), brokers=2) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def _topic(sandbox: ThreadedSandbox, name: str, broker: str = "broker-a") -> Any:
    return sandbox.call(lambda inner: inner.brokers[broker].topics.find(name))


def _routed(sandbox: ThreadedSandbox, name: str) -> dict[str, tuple[int, int, int]]:
    """Return what a name server's route lists: read queues, write queues and permission by broker."""

    async def ask(inner: Sandbox) -> dict[str, tuple[int, int, int]]:
        peer = await Peer.of_name_server(inner)
        answer = await peer.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic=name)
        await peer.aclose()
        if answer.code == R.TOPIC_NOT_EXIST:
            return {}
        data = json.loads(answer.body)["queueDatas"]
        return {each["brokerName"]: (each["readQueueNums"], each["writeQueueNums"], each["perm"]) for each in data}

    return sandbox.run(ask(sandbox.sandbox))


def _send(sandbox: ThreadedSandbox, topic: str, queue_id: int = 0, broker: str = "broker-a", count: int = 1) -> None:
    async def go(inner: Sandbox) -> None:
        peer = await Peer.of_broker(inner, broker)
        await send(peer, topic, queue_id, count=count)
        await peer.aclose()

    sandbox.run(go(sandbox.sandbox))


def _codes(result: Result) -> dict[str, list[str]]:
    """Return a plan's consequences by code."""
    found: dict[str, list[str]] = {}
    for each in document(result)["consequences"]:
        found.setdefault(each["code"], []).append(each["text"])
    return found


def _results(result: Result) -> dict[str, str]:
    return {item["brokerName"]: item["result"] for item in document(result)["items"]}


def _undo(capsys: Captured, result: Result, *words: str) -> Result:
    return call(capsys, "offset", "undo", document(result)["id"], *(words or JSON))


def test_a_topic_is_created_everywhere_and_taken_away_again(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    words = ("topic", "create", "new", "--queues", "3", "--type", "fifo", "--set", "+reserve.time=60000")
    made = call(capsys, *words, *JSON)
    assert made.code == 0, made.err
    assert _results(made) == {"broker-a": "CONFIRMED", "broker-b": "CONFIRMED"}
    assert (document(made)["topic"], document(made)["group"]) == ("new", None)
    topic = _topic(sandbox, "new", "broker-b")
    assert (topic.read_queue_count, topic.write_queue_count, topic.perm) == (3, 3, 6)
    assert topic.attributes == {"message.type": "FIFO", "reserve.time": "60000"}
    assert _routed(sandbox, "new") == {"broker-a": (3, 3, 6), "broker-b": (3, 3, 6)}

    again = call(capsys, *words, "--yes")
    assert (again.code, again.out) == (0, "")
    other = call(capsys, "topic", "create", "new", "--yes")
    assert other.code == 1
    assert "broker-a has +message.type=FIFO" in other.err or "readQueueNums=3" in other.err

    assert _undo(capsys, made).code == 0
    assert _topic(sandbox, "new") is None
    assert _routed(sandbox, "new") == {}


def test_the_undo_of_a_creation_names_what_was_sent_since(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    made = call(capsys, "topic", "create", "new", *JSON)
    _send(sandbox, "new", count=5)
    plan = _undo(capsys, made, "--dry-run", "-o", "json")
    assert "5 messages are deleted at broker-a" in _codes(plan)["MESSAGES_DELETED"][0]


def test_a_topic_is_created_on_one_broker_and_then_on_the_rest(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    one = call(capsys, "topic", "create", "new", "--broker", "broker-b", *JSON)
    assert (one.code, _results(one)) == (0, {"broker-b": "CONFIRMED"})
    assert set(_routed(sandbox, "new")) == {"broker-b"}
    plan = call(capsys, "topic", "create", "new", "--dry-run", "-o", "json")
    assert [item["brokerName"] for item in document(plan)["items"]] == ["broker-a"]
    assert "LEFT_ALONE" in _codes(plan)


@FOUR_9
@pytest.mark.parametrize("words", [("--type", "FIFO"), ("--order",), ("--set", "+reserve.time=1")])
def test_what_an_old_broker_would_drop_is_refused(
    sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...]
) -> None:
    refused = call(capsys, "topic", "create", "new", *words, "--yes")
    assert (refused.code, "its release is too old" in refused.err) == (2, True)
    assert _topic(sandbox, "new") is None


@BOTH
def test_an_update_changes_just_the_named_fields(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    is_5 = sandbox.call(lambda inner: inner.brokers["broker-a"].profile.is_5)
    more = ("--type", "NORMAL") if is_5 else ()
    call(capsys, "topic", "create", "new", "--set", "topicSysFlag=1", *more, "--yes")
    done = call(capsys, "topic", "update", "new", "--write-queues", "2", "--perm", "r", "--broker", "broker-a", *JSON)
    assert done.code == 0, done.err
    topic = _topic(sandbox, "new")
    assert (topic.read_queue_count, topic.write_queue_count, topic.perm, topic.sys_flag) == (8, 2, 4, 1)
    assert topic.attributes == ({"message.type": "NORMAL"} if is_5 else {})
    assert _routed(sandbox, "new") == {"broker-a": (8, 2, 4), "broker-b": (8, 8, 6)}
    # What another hand has changed since stays.
    call(capsys, "topic", "update", "new", "--read-queues", "9", "--yes")
    assert _undo(capsys, done).code == 0
    topic = _topic(sandbox, "new")
    assert (topic.read_queue_count, topic.write_queue_count, topic.perm) == (9, 8, 6)


def test_attributes_are_set_and_removed(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    call(capsys, "topic", "create", "new", "--type", "NORMAL", "--yes")
    done = call(capsys, "topic", "update", "new", "--set", "-message.type", "--set", "+reserve.time=5", *JSON)
    assert done.code == 0, done.err
    assert _topic(sandbox, "new").attributes == {"reserve.time": "5"}
    assert _undo(capsys, done).code == 0
    assert _topic(sandbox, "new").attributes == {"message.type": "NORMAL"}
    unchangeable = call(capsys, "topic", "update", "new", "--cleanup", "COMPACTION", *JSON)
    assert unchangeable.code == 1
    assert set(_results(unchangeable).values()) == {"UNCHANGED"}


def test_fewer_queues_name_what_is_cut_off(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    codes = _codes(call(capsys, "topic", "update", TOPIC, "--queues", "1", "--dry-run", "-o", "json"))
    assert codes["MESSAGES_CUT_OFF"] == ["Group G has 8 unread messages: they are in queues that are cut off."]
    assert "KEYS_MOVE" in codes
    assert "UNREAD_QUEUES" not in codes
    only_read = _codes(call(capsys, "topic", "update", TOPIC, "--read-queues", "1", "--dry-run", "-o", "json"))
    assert "UNREAD_QUEUES" in only_read
    assert "KEYS_MOVE" not in only_read
    more = _codes(call(capsys, "topic", "update", TOPIC, "--queues", "16", "--dry-run", "-o", "json"))
    assert "MESSAGES_CUT_OFF" not in more


def test_a_lower_permission_names_who_is_refused(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    codes = _codes(call(capsys, "topic", "update", TOPIC, "--perm", "w", "--dry-run", "-o", "json"))
    assert set(codes) >= {"NOT_READABLE", "UNREAD_CLOSED"}
    assert "16 unread messages" in codes["UNREAD_CLOSED"][0]
    codes = _codes(call(capsys, "topic", "update", TOPIC, "--perm", "r", "--dry-run", "-o", "json"))
    assert ("NOT_WRITABLE" in codes, "UNREAD_CLOSED" in codes) == (True, False)


@BOTH
def test_a_deletion_names_what_goes_and_what_no_undo_brings_back(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    is_5 = sandbox.call(lambda inner: inner.brokers["broker-a"].profile.is_5)
    join(sandbox)
    done = call(capsys, "topic", "delete", TOPIC, "--dry-run", "-o", "json")
    codes = _codes(done)
    assert codes["MESSAGES_DELETED"][0].startswith("40 messages are deleted at broker-a, broker-b.")
    assert codes["UNREAD_LOST"] == ["Group G has 16 unread messages: they are deleted."]
    assert "G" in codes["READERS"][0]
    assert ("OFFSETS_GO" in codes, "OFFSETS_STAY" in codes) == (is_5, not is_5)
    assert "COMES_AGAIN" in codes

    done = call(capsys, "topic", "delete", TOPIC, *JSON)
    assert (done.code, set(_results(done).values())) == (0, {"CONFIRMED"}), done.err
    assert _topic(sandbox, TOPIC) is None
    assert _routed(sandbox, TOPIC) == {}
    assert bool(stored(sandbox)) is not is_5
    assert call(capsys, "topic", "status", TOPIC).code == 5

    plan = _codes(_undo(capsys, done, "--dry-run", "-o", "json"))
    assert ("EMPTY" in plan, "OFFSETS_THERE" in plan) == (True, not is_5)
    back = _undo(capsys, done)
    assert back.code == 0, back.err
    assert [item["after"] for item in document(back)["items"]] == [item["before"] for item in document(done)["items"]]
    assert set(_routed(sandbox, TOPIC)) == {"broker-a", "broker-b"}
    history = document(call(capsys, "offset", "history", TOPIC, "-o", "json"))["items"]
    assert [(item["operation"], item["topics"], item["group"]) for item in history] == [
        ("topic create", [TOPIC], None), ("topic delete", [TOPIC], None),
    ]  # fmt: skip


def test_a_group_without_an_offset_is_named(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    store(sandbox, 0, -1)  # which means none
    codes = _codes(call(capsys, "topic", "delete", TOPIC, "--dry-run", "-o", "json"))
    assert codes["NO_OFFSET"][0].startswith("Group G has no offset in 1 queue with 10 messages")
    assert codes["UNREAD_LOST"] == ["Group G has 12 unread messages: they are deleted."]


def test_a_deletion_on_one_broker_leaves_the_other(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    plan = _codes(call(capsys, "topic", "delete", TOPIC, "--broker", "broker-b", "--dry-run", "-o", "json"))
    assert ("KEPT_ELSEWHERE" in plan, "30 s" in plan["COMES_AGAIN"][0]) == (True, True)
    call(capsys, "topic", "update", TOPIC, "--perm", "r", "--broker", "broker-b", "--yes")
    plan = _codes(call(capsys, "topic", "delete", TOPIC, "--broker", "broker-b", "--dry-run", "-o", "json"))
    assert "COMES_AGAIN" not in plan  # producers know for a while that they cannot send there
    done = call(capsys, "topic", "delete", TOPIC, "--broker", "broker-b", *JSON)
    assert done.code == 0, done.err
    assert _topic(sandbox, TOPIC, "broker-b") is None
    kept = _routed(sandbox, TOPIC)
    assert (kept["broker-a"][2], kept["broker-b"][2]) == (6, 0)  # no client uses the queues at broker-b
    assert _undo(capsys, done).code == 0
    assert _routed(sandbox, TOPIC)["broker-b"][2] == 4


def test_a_refused_deletion_on_one_broker_leaves_the_permission(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(Q.DELETE_TOPIC_IN_BROKER, R.NO_PERMISSION)
    done = call(capsys, "topic", "delete", TOPIC, "--broker", "broker-b", *JSON)
    assert (done.code, document(done)["items"][0]["result"]) == (4, "UNCHANGED"), done.err
    assert _routed(sandbox, TOPIC)["broker-b"][2] == 6


def test_a_topic_of_rocketmq_needs_its_name_twice(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    call(capsys, "topic", "create", "%DLQ%G", "--queues", "1", "--confirm", "%DLQ%G")
    assert _topic(sandbox, "%DLQ%G") is not None
    words = ("topic", "delete", "%DLQ%G")
    shown = call(capsys, *words, "--dry-run", "-o", "json")
    assert (shown.code, "OWN_TOPIC" in _codes(shown)) == (0, True)
    refused = call(capsys, *words, "--yes")
    assert (refused.code, "--confirm %DLQ%G" in refused.err) == (2, True)
    assert call(capsys, *words, "--confirm", "G").code == 3
    assert _topic(sandbox, "%DLQ%G") is not None
    assert call(capsys, *words, "--confirm", "%DLQ%G").code == 0
    assert _topic(sandbox, "%DLQ%G") is None
    # Brokers protect most of their own.
    done = call(capsys, "topic", "delete", "SELF_TEST_TOPIC", "--confirm", "SELF_TEST_TOPIC", "-o", "json")
    assert (done.code, set(_results(done).values())) == (1, {"UNCHANGED"})


def test_a_saved_plan_deletes_no_message_that_it_does_not_name(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    call(capsys, "topic", "create", "new", "--yes")
    assert call(capsys, "topic", "delete", "new", "--plan", str(path)).code == 0
    _send(sandbox, "new")
    for words in (("--yes",), ("--dry-run",)):
        refused = call(capsys, "apply", str(path), *words)
        assert (refused.code, "1 message is deleted" in refused.err) == (7, True), refused.err
    assert _topic(sandbox, "new") is not None
    path.unlink()
    assert call(capsys, "topic", "delete", "new", "--plan", str(path)).code == 0
    _send(sandbox, "new")  # more of what it names
    done = call(capsys, "apply", str(path), *JSON)
    assert done.code == 0, done.err
    assert _topic(sandbox, "new") is None


def test_a_plan_is_stale_once_the_settings_differ(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    call(capsys, "topic", "update", TOPIC, "--perm", "r", "--plan", str(path))
    call(capsys, "topic", "update", TOPIC, "--queues", "9", "--yes")
    assert call(capsys, "apply", str(path), "--yes").code == 7


def test_what_a_silent_broker_has_is_unknown(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.drop(None, server="broker-b", count=None)
    refused = call(capsys, "topic", "delete", TOPIC, "--yes")
    assert (refused.code, "Topic T could only be read in part" in refused.err) == (1, True), refused.err
    assert _topic(sandbox, TOPIC) is not None
    done = call(capsys, "topic", "delete", TOPIC, "--partial", *JSON)
    assert (done.code, _results(done)) == (8, {"broker-a": "CONFIRMED", "broker-b": "NOT_ATTEMPTED"})
    assert set(_routed(sandbox, TOPIC)) >= {"broker-b"}


def test_who_reads_it_must_be_known(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    sandbox.faults.answer(Q.GET_ALL_CONSUMER_OFFSET, R.SYSTEM_ERROR, server="broker-b", remark="no", count=None)
    refused = call(capsys, "topic", "delete", TOPIC, "--yes")
    assert (refused.code, "stored offsets at broker-b" in refused.err) == (1, True), refused.err
    path = tmp_path / "plan.json"
    assert call(capsys, "topic", "delete", TOPIC, "--plan", str(path)).code == 8
    assert "USE_UNREAD" in path.read_text()
    sandbox.faults.clear()
    sandbox.faults.answer(Q.GET_TOPIC_STATS_INFO, R.SYSTEM_ERROR, server="broker-a", remark="no", count=None)
    assert call(capsys, "apply", str(path), "--yes").code == 7  # now another broker does not report all
    assert _topic(sandbox, TOPIC) is not None


@pytest.mark.parametrize("effect", ["drop", "corrupt"])
def test_a_write_without_an_answer_is_read_back(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, effect: str
) -> None:
    monkeypatch.setattr(late_writes, "LOOK_AGAIN_S", 0.6)
    getattr(sandbox.faults, effect)(Q.DELETE_TOPIC_IN_BROKER, server="broker-a", count=None)
    done = call(capsys, "topic", "delete", TOPIC, *JSON)
    found = _topic(sandbox, TOPIC)
    # A dropped request was not handled, a corrupt answer belongs to one that was.
    assert (found is None) is (effect == "corrupt")
    results = {"broker-a": "UNKNOWN" if effect == "drop" else "CONFIRMED", "broker-b": "CONFIRMED"}
    assert (done.code, _results(done)) == (9 if effect == "drop" else 0, results), done.err


def test_a_name_server_that_lists_something_else_is_named(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_writes, "LOOK_AGAIN_S", 0.6)
    sandbox.faults.answer(Q.DELETE_TOPIC_IN_NAMESRV, R.SYSTEM_ERROR, remark="no", count=None)
    done = call(capsys, "topic", "delete", TOPIC, *JSON)
    assert (done.code, set(_results(done).values())) == (8, {"CONFIRMED"})
    assert "route at name server" in done.out
    sandbox.faults.clear()
    assert _routed(sandbox, TOPIC)


def test_one_writer_at_a_time(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    place = sandbox.brokers["broker-b"]
    with group_lock(Subject("", TOPIC), "topic update", [place]):
        busy = call(capsys, "topic", "delete", TOPIC, "--yes")
        assert (busy.code, f"Topic {TOPIC} is being changed by" in busy.err) == (1, True)
        # A group of the same name is something else.
        assert call(capsys, "group", "create", TOPIC, "--yes").code == 0
    assert _topic(sandbox, TOPIC) is not None


@pytest.mark.parametrize(
    "words",
    [
        ("create", "a b"),
        ("create", "x" * 128),
        ("create", ""),
        ("create", "new", "--perm", "x"),
        ("create", "new", "--queues", "4", "--read-queues", "2"),
        ("create", "new", "--set", "queues=4"),
        ("create", "new", "--set", "order=maybe"),
        ("create", "new", "--set", "topicFilterType=ALL"),
        ("create", "new", "--set", "+message.type=FIFO,x"),
        ("create", "new", "--type", "FIFO", "--set", "+message.type=FIFO"),
        ("create", "new", "--queues", "-1"),
        ("update", TOPIC),
        ("update", "T*", "--queues", "2"),
        ("delete", "T*"),
    ],
)
def test_bad_words_are_refused(sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...]) -> None:
    result = call(capsys, "topic", *words, "--yes")
    assert (result.code, result.out) == (2, ""), result.err


@pytest.mark.parametrize(
    "words", [("update", "nope", "--queues", "2"), ("delete", "nope"), ("delete", TOPIC, "--broker", "broker-z")]
)
def test_what_does_not_exist(sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...]) -> None:
    assert call(capsys, "topic", *words, "--yes").code == 5


@pytest.mark.parametrize(
    "edit",
    [
        {"topic": "other"},
        {"topic": None},
        {"group": "G"},
        {"route": "GROUP_CONFIG"},
        {"operation": "group delete"},
    ],
)
def test_a_plan_is_of_one_topic(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, edit: dict[str, str | None]
) -> None:
    path = tmp_path / "plan.json"
    call(capsys, "topic", "delete", TOPIC, "--plan", str(path))
    plan = json.loads(path.read_text())
    plan |= edit
    plan["items"] = [{**item, "route": edit.get("route", item["route"])} for item in plan["items"]]
    path.write_text(json.dumps(plan | {"sha256": sum_of(plan)}))
    assert call(capsys, "apply", str(path), "--yes").code == 2
    assert _topic(sandbox, TOPIC) is not None
