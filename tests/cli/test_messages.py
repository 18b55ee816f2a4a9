"""Whole runs of the `message` commands and of `offset peek` against a scripted cluster behind real sockets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.message_id import encode_offset_id
from tests.admin.cluster import BrokerState, Cluster, Group, subscribed
from tests.admin.message_store import NOW_MS, MessageStore, damaged, message_cluster
from tests.cli.scripted_server import Serve
from tests.protocol.test_trace import AFTER, BEFORE, PUB
from tests.scripted_peer import refused

from .calls import call, closed_address, spawn

Captured = pytest.CaptureFixture[str]
UNIQ = "7F00000100A418B4AAC269262389000"


def _stores() -> tuple[MessageStore, MessageStore]:
    stores = []
    for name in ("broker-a", "broker-b"):
        state = BrokerState(name, configured={"G", "TOOLS_CONSUMER"})
        store = MessageStore(state, sql={"a = 1": "TagA"})
        for number in range(6):
            store.put(
                "orders", number % 2, body=f'{{"from":"{name}","n":{number}}}'.encode(),
                tag=("TagA", "TagAB")[number % 2], keys=f"k{number}",
                uniq=f"{UNIQ}{number}" if name == "broker-a" else None, at_ms=NOW_MS + number * 1000,
            )  # fmt: skip
        state.offsets["G"] = {"orders": {0: 1, 1: 3}}
        stores.append(store)
    return stores[0], stores[1]


@pytest.fixture
def whole(serve: Serve) -> Cluster:
    """Serve two brokers with messages; NAMESRV_ADDR names their name server."""
    a, b = _stores()
    a.put("RMQ_SYS_TRACE_TOPIC", 0, body=PUB + BEFORE, keys="FD02 k0")
    return serve(message_cluster(a, b))


@pytest.fixture
def partial(serve: Serve) -> Cluster:
    """Serve the same with one broker that refuses connections."""
    return serve(message_cluster(*_stores()), down=["broker-b"])


def test_get_shows_everything_of_a_message(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "get", f"{UNIQ}3", "--topic", "orders")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0] == "orders@broker-a:1 offset 1"
    for words in (
        f"msgId                      {UNIQ}3", "keys                       k3", "storeTimestampIso", "bodyCrcOk",
        "\nproperties\nKEYS      k3\n", '\nbody (JSON, 25 bytes)\n{\n  "from": "broker-a",\n  "n": 3\n}\n',
    ):  # fmt: skip
        assert words in result.out
    document = json.loads(call(capsys, "message", "get", f"{UNIQ}3", "--topic", "orders", "-o", "json").out)
    assert (document["kind"], document["errors"]) == ("MessageList", [])
    item = document["items"][0]
    assert {key: item[key] for key in ("topic", "brokerName", "queueId", "queueOffset", "msgId", "keys", "tags")} == {
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": 1,
        "queueOffset": 1,
        "msgId": f"{UNIQ}3",
        "keys": ["k3"],
        "tags": "TagAB",
    }
    assert (item["storeTimestamp"], item["bornTimestamp"]) == (NOW_MS + 3000, 1_700_000_000_001)
    assert (item["reconsumeTimes"], item["sysFlag"], item["bodySize"], item["bodyCrcOk"]) == (2, 0, 25, True)
    assert json.loads(item["body"]) == {"from": "broker-a", "n": 3}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "in one way"),
        (["X" * 32], "is not a message id"),
        ([f"{UNIQ}0"], "--topic is required"),
        ([f"{UNIQ}0", "--key", "k", "--topic", "orders"], "in one way"),
        (["--key", "k"], "need --topic"),
        (["--topic", "orders", "--offset", "1"], "--queue and --offset must"),
        (["--topic", "orders", "--offset", "-1", "--queue", "broker-a:0"], "must be 0 or more"),
        (["--topic", "orders", "--offset", "1", "--queue", "broker-a"], "requires one queue"),
        (["--topic", "orders", "--offset", "1", "--queue", "broker-c:0"], "no readable queue broker-c:0"),
        (["--topic", "orders", "--key", "k0", "--body", "xml"], "Invalid body format 'xml'"),
        (["--topic", "orders", "--key", "k0", "--codec", "xml"], "codec 'xml'"),
        (["--topic", "orders", "--key", "k0", "--columns", "nope"], "Unknown column 'nope'"),
    ],
)
def test_get_refuses_what_it_can_not_understand(words: list[str], says: str, whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "get", *words)
    assert (result.code, result.out) == (2, "")
    assert says in result.err


def test_get_shows_which_groups_have_passed_a_message(whole: Cluster, capsys: Captured) -> None:
    a = whole.brokers["broker-a"]
    a.groups["G"] = Group({}, ("orders",), subscriptions={"orders": subscribed("orders", "TagA")})
    a.offsets["H"] = {"orders": {1: 1}}
    words = ("message", "get", f"{UNIQ}3", "--topic", "orders", "--consumed-by")
    result = call(capsys, *words)
    assert result.code == 0
    rows = result.out.partition("\nconsumed by\n")[2].splitlines()
    assert [row.split() for row in rows] == [
        ["GROUP", "VERDICT", "OFFSET", "FILTER"], ["G", "FILTERED", "3", "TagA"], ["H", "NOT_YET", "1", "-"],
    ]  # fmt: skip
    assert "FILTERED: The committed offset is past the message" in result.err
    (item,) = json.loads(call(capsys, *words, "-o", "json").out)["items"]
    assert [(each["group"], each["verdict"], each["reasons"]) for each in item["consumedBy"]] == [
        ("G", "FILTERED", {}),
        ("H", "NOT_YET", {"subString": "NO_MEMBERS", "expressionType": "NO_MEMBERS"}),
    ]
    plain = call(capsys, *words, "-o", "plain", "--columns", "consumedBy").out.splitlines()
    assert plain[-1] == "G:FILTERED H:NOT_YET"
    assert call(capsys, *words[:-1], "--columns", "consumedBy").code == 2
    whole.servers["broker-a"].table[Q.QUERY_TOPIC_CONSUME_BY_WHO] = refused(R.SYSTEM_ERROR)
    result = call(capsys, *words, "-o", "json")
    document = json.loads(result.out)
    assert (result.code, document["items"][0]["consumedBy"]) == (8, None)
    assert document["items"][0]["reasons"]["consumedBy"] == document["errors"][0]["name"] == "SYSTEM_ERROR"


def test_get_of_a_key_is_on_all_brokers_and_a_missing_one_is_5(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "get", "--topic", "orders", "--key", "k1", "-o", "name")
    assert result.code == 0
    assert len(result.out.splitlines()) == 2
    assert call(capsys, "message", "get", "--topic", "orders", "--key", "k").code == 5
    assert call(capsys, "message", "get", "--topic", "ordres", "--key", "k").err.count("orders") == 1


def test_a_broker_that_is_down_makes_it_partial(partial: Cluster, capsys: Captured) -> None:
    for words in (
        ["message", "get", "--topic", "orders", "--key", "k1"],
        ["message", "find", "orders"],
        ["message", "find", "orders", "--key", "k1"],
        ["offset", "peek", "G", "--topic", "orders"],
    ):
        result = call(capsys, *words)
        assert result.code == 8, words
        assert "broker-b" in result.err
        assert "broker-a" in result.out
    document = json.loads(call(capsys, "message", "find", "orders", "-o", "json").out)
    assert {error["brokerName"] for error in document["errors"]} == {"broker-b"}


def test_find_shows_a_line_a_message_in_the_order_of_time(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "find", "orders", "--since", str(NOW_MS + 1000), "--limit", "4")
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["STORED", "BROKER", "Q", "OFFSET", "TAGS", "KEYS", "SIZE", "BODY"]
    assert [line[1:4] for line in lines[1:]] == [
        ["broker-a", "1", "0"],
        ["broker-b", "1", "0"],
        ["broker-a", "0", "1"],
        ["broker-b", "0", "1"],
    ]
    assert lines[1][-1] == '{"from":"broker-a","n":1}'
    assert result.err == "rmqctl: Only 4 messages are shown (--limit). There may be more.\n"


@pytest.mark.parametrize("form", ["table", "plain", "json", "jsonl", "yaml", "csv", "tsv", "name"])
@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_a_cut_at_the_limit_is_never_silent(form: str, quiet: list[str], whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "find", "orders", "--limit", "4", "-o", form, *quiet)
    assert result.code == 0
    assert "Only 4 messages are shown" in result.err
    by_key = call(capsys, "message", "find", "orders", "--key", "k1", "--limit", "1", "-o", form, *quiet)
    assert "Only 1 message is shown, newest first" in by_key.err


def test_find_filters_and_says_when_nothing_is_left(whole: Cluster, capsys: Captured) -> None:
    def count(*words: str) -> int:
        result = call(capsys, "message", "find", "orders", *words, "-o", "json")
        assert result.code == 0, result.err
        return len(json.loads(result.out)["items"])

    assert count() == 12
    assert count("--tag", "TagA") == 6
    assert count("--tag", "TagA || TagAB", "--queue", "broker-a:0") == 3
    assert count("--contains", "broker-b") == 6
    assert count("--property", "KEYS=k3") == 2
    assert count("--key", "k3", "--contains", "broker-b") == 1
    assert count("--sql", "a = 1") == 6
    assert count("--until", str(NOW_MS), "--where", "brokerName=broker-b") == 1
    result = call(capsys, "message", "find", "orders", "--contains", "nowhere")
    assert (result.code, result.out, result.err) == (0, "", "No message of orders meets the conditions.\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--since", "yesterday"], "--since: invalid time 'yesterday'"),
        (["--since", "latest"], "matches no messages"),
        (["--until", "earliest"], "matches no messages"),
        (["--since", "1h", "--until", "2h"], "--since is after --until"),
        (["--tag", " || "], "--tag: expression ' || ' contains no tag"),
        (["--property", "novalue"], "NAME=VALUE"),
        (["--queue", "broker-a:x"], "invalid queue"),
        (["--limit", "0"], "must be 1 or more"),
        (["--limit", "-1", "-o", "jsonl"], "must be 1 or more"),
        (["--contains", ""], "--contains is empty"),
        (["--key", " "], "--key is empty"),
        (["--key", "k", "--sql", "a = 1"], "--key and --sql cannot"),
        (["--sql", "a == 1"], "Invalid --sql expression"),
        (["-o", "jsonl", "--sort", "queueId"], "--sort is not supported"),
    ],
)
def test_find_refuses_what_it_can_not_understand(words: list[str], says: str, whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "find", "orders", *words)
    assert (result.code, result.out) == (2, "")
    assert says in result.err


def test_find_streams_all_as_json_lines(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "find", "orders", "-o", "jsonl", "--limit", "0")
    assert result.code == 0
    assert len([json.loads(line) for line in result.out.splitlines()]) == 12


def test_one_unreadable_message_is_a_row_with_an_error(whole: Cluster, capsys: Captured) -> None:
    a, _ = _stores()
    a.put("broken", 0, body=b"good")
    bad = a.put("broken", 0, body=b"bad")
    bad.record = damaged(bad.record)
    a.put("broken", 0, body=b"no zlib", sys_flag=0x301)
    whole.servers["broker-a"].table |= a.table()
    whole.brokers["broker-a"].topics |= a.state.topics
    result = call(capsys, "message", "find", "broken")
    assert result.code == 8
    assert [line.split()[3] for line in result.out.splitlines()[1:]] == ["0", "1", "2"]
    assert "unknown magic" in result.out
    assert "Cannot decompress" in result.out


def test_a_codec_of_a_plugin_reads_bodies(whole: Cluster, capsys: Captured, tmp_path: Path) -> None:
    a, _ = _stores()
    a.put("zipped", 0, body=gzip.compress(b'{"total":5}'))
    whole.servers["broker-a"].table |= a.table()
    whole.brokers["broker-a"].topics |= a.state.topics
    plugin = str(Path(__file__).parent.parent.parent / "plugins" / "gzip_json.py")
    words = ("message", "find", "zipped", "--codec", "gzip-json")
    item = json.loads(call(capsys, *words, "--plugin", plugin, "-o", "json").out)["items"][0]
    assert item["body"] == {"total": 5}
    wrong = call(capsys, "message", "find", "orders", "--codec", "gzip-json", "--plugin", plugin, "--limit", "1")
    assert (wrong.code, "Codec gzip-json failed" in wrong.out) == (8, True)
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    failed = call(capsys, *words, "--plugin", str(broken))
    assert (failed.code, "broken.py: ZeroDivisionError" in failed.err) == (1, True)


def test_a_text_encoding_reads_bodies(whole: Cluster, capsys: Captured) -> None:
    a, _ = _stores()
    texts = {"gbk": "中文", "shift_jis": "中文", "utf-16": "中文", "latin-1": '{"to": "é"}'}
    for name, text in texts.items():
        a.put("texts", 0, body=text.encode(name), keys=name)
    whole.servers["broker-a"].table |= a.table()
    whole.brokers["broker-a"].topics |= a.state.topics
    words = ("message", "get", "--topic", "texts", "--key")
    for name, text in texts.items():
        (item,) = json.loads(call(capsys, *words, name, "--codec", name, "-o", "json").out)["items"]
        assert (item["body"], item["error"]) == (text, None)
    assert '  "to": "é"\n' in call(capsys, *words, "latin-1", "--codec", "latin-1").out


def test_a_message_that_can_not_be_read_whole_is_8_in_every_command(whole: Cluster, capsys: Captured) -> None:
    a, _ = _stores()
    a.put("broken", 0, body=b"no zlib", sys_flag=0x301, uniq=f"{UNIQ}9", keys="k")
    bad = a.put("broken", 0, body=b"bad")
    bad.record = damaged(bad.record)
    a.put("broken", 0, body=b"\xff")
    a.state.configured.add("H")
    a.put("%DLQ%H", 0, body=b"\xff")
    for topic in ("%DLQ%G", "RMQ_SYS_TRACE_TOPIC"):
        a.put(topic, 0, body=b"no zlib", sys_flag=0x301, keys="k")
    a.state.offsets["G"]["broken"] = {0: 1}
    whole.servers["broker-a"].table |= a.table()
    whole.brokers["broker-a"].topics |= a.state.topics
    whole.brokers["broker-a"].offsets["G"] |= a.state.offsets["G"]
    place = ("--topic", "broken", "--queue", "broker-a:0", "--offset")
    for words, code, says in (
        (("message", "get", f"{UNIQ}9", "--topic", "broken"), 8, "Cannot decompress"),
        (("message", "get", *place, "0"), 8, "Cannot decompress"),
        (("message", "get", *place, "1"), 8, "unknown magic"),
        (("message", "get", *place, "2"), 0, "ff"),
        (("message", "get", *place, "2", "--codec", "gbk"), 8, "Codec gbk failed"),
        (("message", "get", "--topic", "broken", "--key", "k"), 8, "Cannot decompress"),
        (("message", "find", "broken", "--key", "k"), 8, "Cannot decompress"),
        (("message", "find", "broken", "-o", "jsonl"), 8, "Cannot decompress"),
        (("message", "tail", "broken", "--since", "earliest", "--count", "1"), 8, "Cannot decompress"),
        (("message", "tail", "orders", "--since", "earliest", "--count", "1"), 0, "broker-"),
        (("offset", "peek", "G", "--topic", "broken"), 8, "Cannot decompress"),
        (("message", "trace", "--key", "k", "-o", "json"), 8, "cannot be read"),
        (("dlq", "show", "G", "-o", "json"), 8, "Cannot decompress"),
        (("dlq", "show", "H", "--codec", "gbk", "-o", "jsonl"), 8, "Codec gbk failed"),
    ):
        result = call(capsys, *words)
        assert (result.code, says in result.out) == (code, True), words
    document = json.loads(call(capsys, "message", "get", "--topic", "broken", "--key", "k", "-o", "json").out)
    assert [(error["brokerName"], error["name"]) for error in document["errors"]] == [("broker-a", "PROTOCOL")]
    item = json.loads(call(capsys, "message", "get", *place, "0", "-o", "json").out)["items"][0]
    assert (item["msgId"], item["body"], item["reasons"]["body"]) == (f"{UNIQ}9", None, "PROTOCOL")


def test_tail_streams_and_ends_after_a_count(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "tail", "orders", "--from", "earliest", "--count", "12", "-o", "jsonl")
    assert (result.code, result.err) == (0, "")
    assert len({json.loads(line)["offsetMsgId"] + line[:60] for line in result.out.splitlines()}) == 12
    last = call(capsys, "message", "tail", "orders", "--last", "2", "--count", "2")
    assert [line.split()[3] for line in last.out.splitlines()] == ["OFFSET", "2", "2"]


def test_a_message_of_a_queue_that_the_topic_no_longer_shows_is_found_by_its_key(
    whole: Cluster, capsys: Captured
) -> None:
    whole.brokers["broker-a"].topics["orders"].pop()
    result = call(capsys, "message", "find", "orders", "--key", "k1", "-o", "jsonl")
    assert [json.loads(line)["brokerName"] for line in result.out.splitlines()] == ["broker-a", "broker-b"]
    result = call(capsys, "message", "find", "orders", "--key", "k1", "--queue", "broker-b:1", "-o", "name")
    assert len(result.out.splitlines()) == 1


def test_words_that_are_no_utf_8_find_nothing_and_break_nothing(whole: Cluster, capsys: Captured) -> None:
    for words in (["--contains", "\udcff"], ["--property", "a=\udcff"]):
        result = call(capsys, "message", "find", "orders", *words)
        assert (result.code, result.out) == (0, ""), words


def test_tail_counts_the_rows_that_it_shows(whole: Cluster, capsys: Captured) -> None:
    words = ("message", "tail", "orders", "--from", "earliest", "--where", "queueId=1", "--count", "6", "-o", "jsonl")
    assert {json.loads(line)["queueId"] for line in call(capsys, *words).out.splitlines()} == {1}
    assert call(capsys, *words[:-2], "-o", "name").out.count("\n") == 6
    assert call(capsys, *words[:-5], "queue=1", "--count", "1").code == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-o", "json"], "Use -o jsonl"),
        (["-o", "yaml"], "Use -o jsonl"),
        (["--last", "3", "--from", "1h"], "--last and --since cannot"),
        (["--last", "-1"], "must be 0 to 10000"),
        (["--count", "0"], "--count 1 or more"),
        (["--from", "someday"], "invalid time"),
        (["--tag", ""], "contains no tag"),
    ],
)
def test_tail_refuses_what_it_can_not_do(words: list[str], says: str, whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "tail", "orders", *words)
    assert (result.code, result.out) == (2, "")
    assert says in result.err


def test_trace_shows_events_and_what_nothing_tells(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "message", "trace", "--key", "k0")
    assert result.code == 0
    assert result.out.splitlines()[1].split()[1:3] == ["PUBLISHED", "P"]
    assert "No record of a delivery" in result.err
    whole.servers["broker-b"].table |= _traced().table()
    whole.brokers["broker-b"].topics["RMQ_SYS_TRACE_TOPIC"] = whole.brokers["broker-a"].topics["RMQ_SYS_TRACE_TOPIC"]
    both = json.loads(call(capsys, "message", "trace", "--key", "k1", "-o", "json").out)
    assert (both["kind"], both["traceTopic"]) == ("MessageTrace", "RMQ_SYS_TRACE_TOPIC")
    done, running = sorted(both["items"], key=lambda item: item["requestId"])
    assert (done["result"], done["costTime"]) == ("FAILED", 7)
    assert (running["result"], running["reasons"]["result"]) == (None, "RUNNING_OR_LOST")
    assert call(capsys, "message", "trace").code == 2
    assert call(capsys, "message", "trace", "zz").code == 2
    assert call(capsys, "message", "trace", "--key", "k0", "--trace-topic", "Nowhere").code == 5


def _traced() -> MessageStore:
    store = MessageStore(BrokerState("broker-b"))
    body = BEFORE + AFTER + BEFORE.replace(b"R1", b"R2")
    store.put("RMQ_SYS_TRACE_TOPIC", 0, body=body, keys="FD02 k1")
    return store


def test_decode_id_needs_no_cluster_and_shows_what_can_be(capsys: Captured) -> None:
    offset_id = encode_offset_id(bytes([10, 0, 0, 1]), 10911, 753)
    document = json.loads(call(capsys, "message", "decode-id", offset_id, "-o", "json").out)
    (item,) = document["items"]
    assert (item["kind"], item["host"], item["port"], item["commitLogOffset"]) == ("OFFSET_ID", "10.0.0.1", 10911, 753)
    assert [one["kind"] for one in document["impossible"]] == ["UNIQUE_KEY", "CLIENT_ID"]
    result = call(capsys, "message", "decode-id", f"{UNIQ}3")
    assert result.code == 0
    assert result.out.splitlines()[1].split()[:5] == ["UNIQUE_KEY", "127.0.0.1", "-", "-", "164"]
    assert "it would mean port" in result.err
    assert call(capsys, "message", "decode-id", "01ABCDEF12345617D9123456780000000A", "-o", "name").out == "CLIENT_ID\n"
    for wrong in ("", "zz", "7F", f"{UNIQ}33", "02ABCDEF12345617D9123456780000000A"):
        refused = call(capsys, "message", "decode-id", wrong)
        assert (refused.code, refused.out) == (2, ""), wrong


def test_peek_marks_before_at_and_after(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "offset", "peek", "G", "--topic", "orders", "--queue", "broker-a", "--before", "1")
    lines = [line.split()[:4] for line in result.out.splitlines()]
    assert lines == [
        ["BROKER", "Q", "AT", "OFFSET"],
        ["broker-a", "0", "BEFORE", "0"],
        ["broker-a", "0", "AT", "1"],
        ["broker-a", "0", "AFTER", "2"],
        ["broker-a", "1", "BEFORE", "2"],
    ]
    assert result.err == "broker-a:1: no unread messages; the next message gets offset 3.\n"
    assert call(capsys, "offset", "peek", "G", "--topic", "orders", "--before", "-1").code == 2
    assert call(capsys, "offset", "peek", "G", "--topic", "orders", "--after", "100000").code == 2
    assert call(capsys, "offset", "peek", "G").code == 2
    assert call(capsys, "offset", "peek", "NoGroup", "--topic", "orders").code == 5


def test_peek_says_what_was_deleted_and_never_committed(whole: Cluster, capsys: Captured) -> None:
    a, _ = _stores()
    a.delete_before("orders", 0, 2)
    whole.servers["broker-a"].table |= a.table()
    whole.brokers["broker-a"].offsets["G"] = {"orders": {0: 0}}
    words = ("offset", "peek", "G", "--topic", "orders", "--queue", "broker-a")
    result = call(capsys, *words)
    assert "broker-a:0: offset 0 was deleted; 0 to 1 " in result.err
    assert "broker-a:1: the group has no offset here" in result.err
    document = json.loads(call(capsys, *words, "-o", "json").out)
    assert [item["position"] for item in document["items"]] == ["AT"]
    assert [queue["consumerOffset"] for queue in document["queues"]] == [0, None]
    assert document["queues"][1]["reasons"] == {"consumerOffset": "NEVER_COMMITTED"}


@pytest.mark.parametrize("width", ["80", "200"])
def test_a_table_on_a_terminal_fits_and_has_no_colour_when_asked(
    width: str, whole: Cluster, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for words in (["message", "find", "orders"], ["message", "get", f"{UNIQ}3", "--topic", "orders"],
                  ["offset", "peek", "G", "--topic", "orders"], ["message", "trace", "--key", "k0"]):  # fmt: skip
        result = call(capsys, *words)
        assert result.code == 0
        assert "\x1b" not in result.out
        assert max(map(len, result.out.splitlines())) <= int(width)


def test_without_a_codec_no_plugin_machinery_is_loaded() -> None:
    report = "import sys\nfrom rmqctl.cli.app import run\nrun(sys.argv[1:])\nprint('MODULES', *sorted(sys.modules))"
    done = spawn("-n", closed_address(), "message", "find", "orders", code=report)
    modules = set(done.stdout.rpartition("MODULES ")[2].split())
    assert "rmqctl.cli.message.find" in modules
    assert modules & {"pluggy", "rich", "rmqctl.plugin.loader", "rmqctl.cli.message.tail"} == set()
