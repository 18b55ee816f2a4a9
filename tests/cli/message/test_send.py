"""message send, from the command line to brokers: what is stored, what is refused, what is told of it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.topics.table import Topic
from tests.cli.calls import call, closed_address
from tests.cli.scripted_server import Serve
from tests.cli.time_leap import leaping
from tests.client.send_brokers import sending_cluster, sent, stored
from tests.schemas import check_item
from tests.scripted_peer import refused

Captured = pytest.CaptureFixture[str]
both = pytest.mark.parametrize("sandbox", ["5.4.0", "4.9.7"], indirect=True)
TOPIC = "orders"
SEND = ("message", "send", TOPIC)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Run two brokers with two queues of the topic each."""

    def create(inner: Sandbox) -> None:
        for broker in inner.brokers.values():
            broker.topics.put(Topic(TOPIC, 2, 2))

    with ThreadedSandbox(plays=getattr(request, "param", "5.4.0"), brokers=2) as running:
        running.call(create)
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def _found(capsys: Captured, *words: str) -> list[dict[str, Any]]:
    """Return the messages of the topic, in the order of their store times."""
    result = call(capsys, "message", "find", TOPIC, *words, "-o", "json")
    assert result.code == 0, result.err
    items: list[dict[str, Any]] = json.loads(result.out)["items"]
    return items


def _sent(capsys: Captured, *words: str, code: int = 0) -> list[dict[str, Any]]:
    result = call(capsys, *SEND, *words, "-o", "json")
    assert result.code == code, result.err
    document = json.loads(result.out)
    assert document["kind"] == "MessageSent"
    items: list[dict[str, Any]] = document["items"]
    return items


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# What is stored


@both
def test_a_message_comes_back_as_it_was_sent(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    words = ("--key", "k1", "--key", "k2", "--tag", "A", "--property", "region=EU", "--property", "eq=a=b")
    (item,) = _sent(capsys, '{"n":1}', *words)
    (found,) = _found(capsys)
    for key in ("topic", "brokerName", "queueId", "queueOffset", "msgId", "offsetMsgId", "keys", "tags", "bodySize"):
        assert item[key] == found[key], key
    assert (found["body"], found["keys"], found["tags"]) == ('{"n":1}', ["k1", "k2"], "A")
    assert (found["properties"]["region"], found["properties"]["eq"]) == ("EU", "a=b")
    assert item["sendStatus"] == "SEND_OK"
    by_id = call(capsys, "message", "get", item["offsetMsgId"], "-o", "name")
    assert by_id.out.strip() == item["msgId"]


@both
def test_each_key_that_is_shown_finds_its_message(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    keys = ["订单\u30001024", "a\u00a0b", "a\tb", "end\n"]
    for key in keys:
        (item,) = _sent(capsys, key, "--key", key, "--key", "all")
        assert item["keys"] == [key, "all"]
    assert sorted(found["keys"] for found in _found(capsys)) == sorted([key, "all"] for key in keys)
    for found in _found(capsys, "--key", "all"):
        by_key = call(capsys, "message", "get", "--topic", TOPIC, "--key", found["keys"][0], "-o", "name")
        assert (by_key.code, by_key.out.strip()) == (0, found["msgId"])
    assert call(capsys, "message", "get", "--topic", TOPIC, "--key", "1024").code == 5


def test_a_line_tells_where_it_is(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *SEND, "x", "--queue", "broker-b:1")
    assert (result.code, result.err) == (0, "")
    head, row = (line.split() for line in result.out.splitlines())
    assert head == ["BROKER", "Q", "OFFSET", "TAGS", "KEYS", "SIZE", "MSG-ID", "STATUS"]
    (found,) = _found(capsys)
    assert row == ["broker-b", "1", "0", "-", "-", "1", found["msgId"], "SEND_OK"]
    assert call(capsys, *SEND, "x", "-o", "name").out.strip() in {item["msgId"] for item in _found(capsys)}


def test_bodies_of_files_and_stdin_are_sent_byte_by_byte(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = bytes(range(256)) + b"\r\n\n"
    path = tmp_path / "body"
    path.write_bytes(body)
    _sent(capsys, "--file", str(path), "--key", "file")
    for words in (("-",), ("--file", "-")):
        _stdin(monkeypatch, body)
        _sent(capsys, *words, "--key", "stdin")
    assert {found["bodySize"] for found in _found(capsys)} == {len(body)}
    hexed = {found["body"] for found in _found(capsys, "--body", "hex")}
    assert hexed == {body.hex()}


def test_what_the_shell_gives_is_sent_whatever_its_encoding(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _sent(capsys, b"\xff\xfeM\xc3\xbc".decode(errors="surrogateescape"))
    assert [found["body"] for found in _found(capsys, "--body", "hex")] == ["fffe4dc3bc"]


@both
def test_each_line_is_a_message_in_one_queue_in_order(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stdin(monkeypatch, b"a\n\nb\n c\nlast")
    items = _sent(capsys, "-", "--lines", "--tag", "L")
    assert len({(item["brokerName"], item["queueId"]) for item in items}) == 1
    assert [item["queueOffset"] for item in items] == [0, 1, 2, 3]
    found = sorted(_found(capsys), key=lambda each: each["queueOffset"])
    assert [each["body"] for each in found] == ["a", "b", " c", "last"]
    # 4.9 would write a key of the batch over those of its messages.
    assert [each["msgId"] for each in found] == [item["msgId"] for item in items]
    assert {each["tags"] for each in found} == {"L"}


def test_many_lines_take_several_requests(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"line {number}\n" for number in range(2_500)))
    items = _sent(capsys, "--file", str(path), "--lines")
    assert len(items) == 2_500
    assert len({(item["brokerName"], item["queueId"]) for item in items}) == 3
    found = {each["msgId"]: each["body"] for each in _found(capsys, "--limit", "5000")}
    assert [found[item["msgId"]] for item in items] == [f"line {number}" for number in range(2_500)]


def test_a_count_makes_messages_of_their_own_round_all_queues(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    items = _sent(capsys, "same", "--count", "40", "--key", "k")
    assert len({item["msgId"] for item in items}) == 40
    assert len({(item["brokerName"], item["queueId"]) for item in items}) == 4
    assert {(each["body"], *each["keys"]) for each in _found(capsys)} == {("same", "k")}


@both
def test_a_level_delays_it(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    (item,) = _sent(capsys, "later", "--delay-level", "3")
    assert (item["queueOffset"], item["reasons"]["queueOffset"]) == (None, "DELAYED")
    assert _found(capsys) == []
    sandbox.advance(10.5)
    (found,) = _found(capsys)
    assert (found["msgId"], found["queueId"], found["brokerName"]) == (
        item["msgId"], item["queueId"], item["brokerName"]
    )  # fmt: skip


def test_a_time_delays_it_and_lines_that_are_delayed_go_one_by_one(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stdin(monkeypatch, b"a\nb\n")
    items = _sent(capsys, "-", "--lines", "--delay", "90s")
    assert all(item["recallHandle"] for item in items)
    assert _found(capsys) == []
    sandbox.advance(80)
    assert _found(capsys) == []
    sandbox.advance(12)
    assert sorted(found["body"] for found in _found(capsys)) == ["a", "b"]


@pytest.mark.parametrize("sandbox", ["4.9.7"], indirect=True)
def test_brokers_before_5_keep_to_levels(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *SEND, "x", "--delay", "90s", "-o", "json")
    assert (result.code, result.out, result.error["name"]) == (1, "", "REFUSED")
    assert "4.9.7, which supports only delay levels" in result.error["message"]
    assert _found(capsys) == []


def test_a_namespace_stands_before_the_topic(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.call(lambda inner: inner.brokers["broker-a"].topics.put(Topic(f"NS%{TOPIC}", 1, 1)))
    (item,) = _sent(capsys, "x", "--namespace", "NS")
    assert item["topic"] == f"NS%{TOPIC}"
    assert _found(capsys) == []


# Without sending


@both
def test_a_dry_run_sends_nothing_and_shows_where_it_would_go(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    items = _sent(capsys, "x", "--dry-run", "--count", "2", "--tag", "A")
    assert [(item["brokerName"], item["queueId"], item["tags"]) for item in items] == [(None, None, "A")] * 2
    assert items[0]["reasons"] == {
        "brokerName": "ROUND_ROBIN", "queueId": "ROUND_ROBIN", "queueOffset": "DRY_RUN", "msgId": "DRY_RUN",
        "offsetMsgId": "DRY_RUN", "sendStatus": "DRY_RUN", "recallHandle": "DRY_RUN",
    }  # fmt: skip
    (item,) = _sent(capsys, "x", "--dry-run", "--queue", "broker-b:1", "--where", "queueId=1")
    assert (item["brokerName"], item["queueId"]) == ("broker-b", 1)
    result = call(capsys, *SEND, "x", "--dry-run")
    assert (result.code, result.err) == (0, "Nothing was sent.\n")
    assert call(capsys, *SEND, "x", "--dry-run", "--queue", "broker-b:2").code == 2
    assert _found(capsys) == []


def _context(config_file: Path, sandbox: ThreadedSandbox, **flags: bool) -> None:
    words = "".join(f"{name} = {str(value).lower()}\n" for name, value in flags.items())
    config_file.write_text(f'[contexts.prod]\nnamesrv = "{sandbox.addr}"\n{words}')


def test_a_readonly_context_sends_nothing(sandbox: ThreadedSandbox, capsys: Captured, config_file: Path) -> None:
    _context(config_file, sandbox, readonly=True)
    result = call(capsys, *SEND, "x", "--context", "prod", "-o", "json")
    assert (result.code, result.out, result.error["name"]) == (1, "", "REFUSED")
    assert call(capsys, *SEND, "x", "--context", "prod", "--dry-run").code == 0
    assert _found(capsys) == []


def test_a_protected_context_wants_the_topics_name(
    sandbox: ThreadedSandbox, capsys: Captured, config_file: Path
) -> None:
    _context(config_file, sandbox, protected=True)
    words = (*SEND, "x", "--context", "prod")
    for consent, code in (((), 2), (("--confirm", "Orders"), 3), (("--confirm", ""), 3)):
        result = call(capsys, *words, *consent)
        assert (result.code, result.out) == (code, ""), consent
    assert "--confirm orders" in call(capsys, *words).err
    assert _found(capsys) == []
    assert call(capsys, *words, "--dry-run").code == 0
    assert call(capsys, *words, "--confirm", TOPIC).code == 0
    assert len(_found(capsys)) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "in one way"),
        (("x", "--file", "f"), "in one way"),
        (("",), "needs a body"),
        (("--file", "/nowhere/at-all"), "no such file"),
        (("--file", "/dev/null"), "needs a body"),
        (("--file", "/dev/null", "--lines"), "needs a body"),
        (("x", "--count", "0"), "--count must be 1 to"),
        (("x", "--lines", "--count", "2"), "--lines and --count cannot"),
        (("x", "--delay-level", "0"), "--delay-level must be 1 to 18"),
        (("x", "--delay-level", "19"), "--delay-level must be 1 to 18"),
        (("x", "--delay-level", "1", "--delay", "5s"), "--delay-level and --delay cannot"),
        (("x", "--delay", "soon"), "--delay: "),
        (("x", "--key", "a b"), "'a b' is not a valid key"),
        (("x", "--key", ""), "'' is not a valid key"),
        (("x", "--tag", "A||B"), "'A||B' is not a valid tag"),
        (("x", "--property", "novalue"), "NAME=VALUE, not 'novalue'"),
        (("x", "--property", "=v"), "a name and a value"),
        (("x", "--property", "TAGS=A"), "Use --tag"),
        (("x", "--property", "UNIQ_KEY=A"), "UNIQ_KEY is reserved"),
        (("x", "--property", "p=\x01"), "separator"),
        (("x", "--property", "p=\udcff"), "not valid Unicode"),
        (("x", "--queue", "broker-a:7"), "broker-a:0, broker-a:1, broker-b:0, broker-b:1."),
        (("x", "--queue", "broker-a"), "is not a single writable queue of orders"),
        (("x", "--queue", "broker-a:0-1"), "is not a single writable queue of orders"),
        (("x", "--queue", "a b"), "invalid queue"),
        (("x", "--columns", "nope"), "Unknown column"),
        (("x", "--sort", "nope"), "Unknown "),
        (("x", "--where", "queueId=0"), "--where would also hide what is sent"),
    ],
)
def test_what_can_not_be_meant_is_said_before_anything_is_sent(
    sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...], says: str
) -> None:
    result = call(capsys, *SEND, *words)
    assert (result.code, result.out) == (2, "")
    assert says.lower() in result.err.lower()
    assert _found(capsys) == []


def test_topics_that_there_are_not_and_rocketmqs_own(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, "message", "send", "order", "x")
    assert (result.code, "Did you mean orders?" in result.err) == (5, True)
    for name in (
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRACE_TOPIC",
        "rmq_sys_wheel_timer",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "%DLQ%G",
        "%RETRY%G",
        "%RETRY%G_orders",
    ):
        for more in ((), ("--dry-run",)):
            result = call(capsys, "message", "send", name, "x", *more)
            assert (result.code, name in result.err) == (2, True), name
    sandbox.call(lambda inner: [broker.topics.put(Topic(TOPIC, 2, 2, perm=4)) for broker in inner.brokers.values()])
    result = call(capsys, *SEND, "x", "-o", "json")
    assert (result.code, result.error["name"]) == (1, "REFUSED")


def test_too_large_a_body_is_a_sentence(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(4 * 1024 * 1024 + 1))
    result = call(capsys, *SEND, "--file", str(path), "-o", "json")
    assert (result.code, result.out) == (1, "")
    assert "too large: 4194305 bytes" in result.error["message"]


# Brokers that fail


@pytest.mark.parametrize("status", ["FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"])
def test_what_is_stored_badly_is_told_and_is_no_success(capsys: Captured, serve: Serve, status: str) -> None:
    cluster = sending_cluster("broker-a", topic=TOPIC)
    cluster.servers["broker-a"].table[Q.SEND_MESSAGE_V2] = stored("ID", "1", 5, code=R[status])
    serve(cluster)
    (item,) = _sent(capsys, "x", code=9)
    result = call(capsys, *SEND, "x")
    assert (item["sendStatus"], item["queueOffset"]) == (status, 5)
    assert (result.code, status in result.out) == (9, True)
    assert "stored less safely" in result.err


def test_another_broker_takes_what_one_does_not(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(Q.SEND_MESSAGE_V2, R.SERVICE_NOT_AVAILABLE, server="broker-a", count=None)
    assert {item["brokerName"] for item in _sent(capsys, "x", "--count", "6")} == {"broker-b"}
    result = call(capsys, *SEND, "x", "--queue", "broker-a:0", "-o", "json")
    assert (result.code, result.out, result.error["name"]) == (1, "", "SERVICE_NOT_AVAILABLE")


def test_an_answer_that_gets_lost_leaves_it_open_whether_it_is_stored(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.faults.silence(Q.SEND_MESSAGE_V2, count=None)
    with leaping(sandbox, monkeypatch, strike_s=3600):
        result = call(capsys, *SEND, "x", "--timeout", "1h", "-o", "json")
    assert (result.code, result.out, result.error["name"]) == (6, "", "TIMED_OUT")
    assert "may have been stored" in result.error["message"]


def test_nobody_there(capsys: Captured) -> None:
    result = call(capsys, *SEND, "x", "-n", closed_address())
    assert (result.code, result.out) == (6, "")


def _refusing_after(count: int) -> Any:
    """Return a reply that stores so many batches, and refuses what comes then."""
    taken = 0

    def reply(request: Command) -> Command:
        nonlocal taken
        taken += 1
        if taken > count:
            return refused(R.MESSAGE_ILLEGAL, "the disk is full of it")
        return stored(",".join(["ID"] * 1_000))

    return reply


@pytest.mark.parametrize(("batch_count", "code", "stored_count"), [(0, 1, 0), (2, 8, 2_000)])
def test_it_ends_at_the_first_that_nobody_takes_and_tells_what_is_stored(
    capsys: Captured, serve: Serve, tmp_path: Path, batch_count: int, code: int, stored_count: int
) -> None:
    cluster = sending_cluster("broker-a", topic=TOPIC)
    cluster.servers["broker-a"].table[Q.SEND_BATCH_MESSAGE] = _refusing_after(batch_count)
    path = tmp_path / "lines"
    path.write_text("x\n" * 5_000)
    serve(cluster)
    result = call(capsys, *SEND, "--file", str(path), "--lines", "-o", "json")
    assert result.code == code
    if stored_count:
        document: Mapping[str, Any] = json.loads(result.out)
        assert len(document["items"]) == stored_count
        (error,) = document["errors"]
        assert (error["what"], error["name"]) == ("3000 of 5000 messages", "MESSAGE_ILLEGAL")
        assert error["attempt"] == "WRITE"
    else:
        assert result.out == ""
        assert result.error["name"] == "MESSAGE_ILLEGAL"
    assert len(sent(cluster, "broker-a")) == batch_count + 1


def test_lines_of_json_are_as_their_schema_says(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *SEND, "x", "--count", "3", "-o", "jsonl")
    items = [json.loads(line) for line in result.out.splitlines()]
    assert len(items) == 3
    for item in items:
        check_item("MessageSent", item)


def test_hostile_names_are_written_as_escapes(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *SEND, "x", "--key", "\x1b[2Jk", "--tag", "\x1b[31mred")
    assert result.code == 0
    assert "\x1b" not in result.out + result.err
    assert "\\x1b[31mred" in result.out
