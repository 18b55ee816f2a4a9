"""consume run, from the command line to the group that it leaves."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rmqctl.cli.consume.caught_up import CaughtUp
from rmqctl.cli.consume.consume_run import ConsumeRun
from rmqctl.client.core import Client
from rmqctl.net.clock import pause
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.topics.table import Topic
from tests.cli.calls import Result, call, closed_address
from tests.cli.change import seeded_sandbox
from tests.sandbox.peer import Peer
from tests.sandbox.sender import pairs, send

from . import eager

Captured = pytest.CaptureFixture[str]
GROUP, TOPIC, RETRY = "G", "T", "%RETRY%G"
RUN = ("consume", "run", GROUP, TOPIC, "--from", "earliest")

program = partial(seeded_sandbox.program, module=eager.__name__)


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Run a broker with one queue of the topic."""

    def create(inner: Sandbox) -> None:
        inner.brokers["broker-a"].topics.put(Topic(TOPIC, 1, 1))

    with ThreadedSandbox() as running:
        running.call(create)
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def _send(sandbox: ThreadedSandbox, *bodies: str, topic: str = TOPIC, **properties: str) -> None:
    async def go(inner: Sandbox) -> None:
        peer = await Peer.of_broker(inner)
        for number, body in enumerate(bodies):
            texts = pairs(UNIQ_KEY=f"key-{number}", **properties)
            assert (await send(peer, topic, body.encode(), properties=texts)).code == R.SUCCESS
        await peer.aclose()

    sandbox.run(go(sandbox.sandbox))


def _stored(sandbox: ThreadedSandbox, topic: str = TOPIC) -> int:
    """Return the group's stored offset of a topic's first queue, -1 for none."""
    return sandbox.call(
        lambda inner: inner.brokers["broker-a"].offsets.stored.get((topic, GROUP), {}).get(0, -1)
    )  # fmt: skip


def _sent_back_count(sandbox: ThreadedSandbox) -> int:
    """Return how many messages wait to come again, or came."""

    def look(inner: Sandbox) -> int:
        store = inner.brokers["broker-a"].store
        return store.max_offset(RETRY, 0) + sum(store.max_offset("SCHEDULE_TOPIC_XXXX", level) for level in range(18))

    return sandbox.call(look)


def _member_count(sandbox: ThreadedSandbox) -> int:
    async def go(inner: Sandbox) -> int:
        peer = await Peer.of_broker(inner)
        answer = await peer.ask(Q.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=GROUP)
        await peer.aclose()
        return len(json.loads(answer.body)["consumerIdList"]) if answer.code == R.SUCCESS else 0

    return sandbox.run(go(sandbox.sandbox))


def _file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "listener.py"
    path.write_text(text)
    return str(path)


# What is refused before anything is asked


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "one of --handler, --exec and --print"),
        (("--print", "--exec", "true"), "one of --handler, --exec and --print"),
        (("--print", "--handler", "a:b"), "one of --handler, --exec and --print"),
        (("--handler", "listener"), "Invalid --handler"),
        (("--handler", "listener:"), "Invalid --handler"),
        (("--handler", ":f"), "Invalid --handler"),
        (("--handler", "a.py:f()"), "Invalid --handler"),
        (("--handler", "no_such_module_at_all:f"), ": ModuleNotFoundError"),
        (("--handler", "/nowhere/at-all.py:f"), "/nowhere/at-all.py does not exist"),
        (("--handler", "json:no_such"), "json has no function no_such"),
        (("--handler", "json:__name__"), "json has no function __name__"),
        (("--handler", "decimal:Decimal"), "--handler: Decimal is a class"),
        (("--handler", "glob:iglob"), "(pathname, *, "),
        (("--exec", ""), "Command '' does not exist"),
        (("--exec", "no-such-command-at-all x"), "Command 'no-such-command-at-all' does not exist"),
        (("--exec", "echo 'x"), "Invalid --exec"),
        (("--exec", "/etc/passwd"), "/etc/passwd is not executable"),
        (("--exec", "/etc"), "/etc is a folder"),
        (("--print", "--count", "1", "--until-caught-up"), "exclude each other"),
        (("--print", "--orderly", "--dedup"), "--orderly and --dedup exclude"),
        (("--print", "--orderly", "--delay-level", "3"), "--orderly and --delay-level exclude"),
        (("--print", "--orderly", "--ack-index", "rocketmq"), "--orderly and --ack-index rocketmq exclude"),
        (("--print", "--skip-older-than", "x"), "--skip-older-than: "),
        (("--print", "--skip-if-behind", "0"), "--skip-if-behind"),
        (("--print", "--delay-level", "-2"), "--delay-level"),
        (("--print", "--ack-index", "x"), "--ack-index"),
        (("--print", "--strategy", "nonsense"), "--strategy: "),
        (("--print", "--from", "someday"), "--from"),
        (("--print", "--for", "x"), "--for: "),
        (("--print", "--drain", "-1s"), "--drain: "),
        (("--print", "--protect", "1 parsec"), "--protect: "),
        (("--print", "--consume-timeout", "0s"), "must be greater than 0"),
        (("--print", "--count", "0"), "--count"),
        (("--print", "--batch", "0"), "--batch"),
        (("--print", "--batch", "1025"), "--batch"),
        (("--print", "--workers", "0"), "--workers"),
        (("--print", "--max-reconsume-times", "-2"), "--max-reconsume-times"),
        (("--print", TOPIC), "T is given twice"),
        (("--print", "U:||"), "Cannot subscribe to 'U:||'"),
        (("--print", "-o", "json"), "-o json is not supported"),
        (("--print", "--sort", "keys"), "--sort is not supported"),
        (("--print", "--columns", "nonsense"), "nonsense"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_makes_no_sense_joins_nothing(words: tuple[str, ...], says: str, capsys: Captured) -> None:
    result = call(capsys, "-n", closed_address(), *RUN, *words, "--yes")
    assert (result.code, result.out) == (2, "")
    assert says in result.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def f(:", "SyntaxError"), ("import sys\nsys.exit(0)", "SystemExit"), ("1/0", "ZeroDivisionError"),
        ("", "no function f"), ("raise KeyError('at import')", ": KeyError: 'at import'"),
        ("class f: ...", "f is a class"), ("def f(messages): ...", "its parameters are (messages)"),
        ("def f(messages, context): yield", "f is a generator"),
        ("async def f(messages, context): yield", "f is a generator"),
    ],
)  # fmt: skip
def test_a_file_that_can_not_be_loaded(text: str, says: str, tmp_path: Path, capsys: Captured) -> None:
    path = _file(tmp_path, text)
    result = call(capsys, "-n", closed_address(), *RUN, "--handler", f"{path}:f", "--yes")
    assert (result.code, says in " ".join(result.err.split())) == (2, True), result.err


@pytest.mark.parametrize("group", ["", "a b", "g" * 300])
def test_a_name_that_is_none_of_a_group(group: str, capsys: Captured) -> None:
    assert call(capsys, "-n", closed_address(), "consume", "run", group, TOPIC, "--print", "--yes").code == 2


def test_without_a_yes_nobody_joins(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *RUN, "--print", "--count", "1")
    assert result.code == 2
    assert "Joins group G" in result.err
    assert _member_count(sandbox) == 0


def test_a_topic_that_there_is_not(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    assert sandbox.addr
    result = call(capsys, "consume", "run", GROUP, "none", "--print", "--yes", "-o", "jsonl")
    assert (result.code, result.error["name"]) == (5, "NOT_FOUND")


def _context(path: Path, sandbox: ThreadedSandbox, **settings: bool) -> None:
    lines = "".join(f"{name} = {str(value).lower()}\n" for name, value in settings.items())
    path.write_text(f'[contexts.prod]\nnamesrv = "{sandbox.addr}"\n{lines}')


def test_a_readonly_context_consumes_nothing(sandbox: ThreadedSandbox, capsys: Captured, config_file: Path) -> None:
    _send(sandbox, "a")
    _context(config_file, sandbox, readonly=True)
    result = call(capsys, *RUN, "--print", "--count", "1", "--yes", "--context", "prod", "-o", "jsonl")
    assert (result.code, result.out, result.error["name"]) == (1, "", "REFUSED")
    assert _stored(sandbox) == -1


def test_a_protected_context_wants_the_groups_name(
    sandbox: ThreadedSandbox, capsys: Captured, config_file: Path
) -> None:
    _send(sandbox, "a")
    _context(config_file, sandbox, protected=True)
    words = (*RUN, "--print", "--count", "1", "--context", "prod")
    for consent, code in (((), 2), (("--yes",), 2), (("--confirm", "g"), 3), (("--confirm", ""), 3)):
        result = call(capsys, *words, *consent)
        assert (result.code, result.out) == (code, ""), consent
    assert "--confirm G" in call(capsys, *words).err
    assert _stored(sandbox) == -1
    assert call(capsys, *words, "--confirm", GROUP).code == 0
    assert _stored(sandbox) == 1


# What consumes


def _consume(capsys: Captured, *words: str, code: int = 0) -> Result:
    result = call(capsys, *RUN, *words, "--yes")
    assert result.code == code, result.err
    return result


def _until(sandbox: ThreadedSandbox, said: str, *words: str, code: int = 0) -> str:
    """Run until a line is on stderr, then end it by a signal; return the rest of stderr."""
    running = program(*RUN, *words, "--yes", namesrv=sandbox.addr)
    assert running.stderr is not None
    assert any(said in line for line in running.stderr)
    running.terminate()
    _, err = running.communicate(timeout=120)
    assert running.returncode == code, err
    return err


def test_print_shows_so_many_messages_and_acknowledges_them_alone(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _send(sandbox, "a\x1b[31m", "b", "c", "d", TAGS="A")
    result = _consume(capsys, "--print", "--count", "3", "-o", "jsonl")
    items: list[dict[str, Any]] = [json.loads(line) for line in result.out.splitlines()]
    assert [item["body"] for item in items] == ["a\x1b[31m", "b", "c"]
    assert [(item["topic"], item["queueOffset"], item["tags"]) for item in items] == [
        (TOPIC, 0, "A"), (TOPIC, 1, "A"), (TOPIC, 2, "A"),
    ]  # fmt: skip
    assert "\x1b" not in result.out
    assert (_stored(sandbox), _sent_back_count(sandbox), _member_count(sandbox)) == (3, 0, 0)
    # The next one goes on there.
    assert json.loads(_consume(capsys, "--print", "--count", "1", "-o", "jsonl").out)["body"] == "d"


def test_a_table_escapes_what_would_move_the_terminal(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _send(sandbox, "\x1b[2J")
    result = _consume(capsys, "--print", "--count", "1")
    assert "\x1b" not in result.out
    assert "Joined G as " in result.err
    assert "Left G: 1 consumed, 0 failed." in result.err


def test_only_messages_with_a_tag(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _send(sandbox, "a", TAGS="A")
    _send(sandbox, "b", TAGS="B")
    words = ("consume", "run", GROUP, f"{TOPIC}:B || C", "--from", "earliest", "--print", "--count", "1", "--yes")
    result = call(capsys, *words, "-o", "jsonl")
    assert [json.loads(line)["body"] for line in result.out.splitlines()] == ["b"]


@pytest.mark.parametrize(("count", "batch"), [(5, 3), (4, 2), (2, 32)])
def test_no_more_than_the_number_is_consumed_in_batches(
    count: int, batch: int, sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    _send(sandbox, *"abcdefgh")
    result = _consume(capsys, "--print", "--count", str(count), "--batch", str(batch), "-o", "jsonl")
    assert [json.loads(line)["body"] for line in result.out.splitlines()] == list("abcdefgh"[:count])
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (count, 0)


def test_a_key_that_there_is_not_to_filter_by_ends_it_and_sends_nothing_back(
    sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    _send(sandbox, "a", "b", "c")
    result = _consume(capsys, "--print", "--where", "bodi=a", code=2)
    assert "Unknown key 'bodi'" in result.err
    assert (_stored(sandbox) <= 0, _sent_back_count(sandbox)) == (True, 0)


_HANDLERS = """
import sys

def note(messages):
    with open({path!r}, "a") as seen:
        for message in messages:
            seen.write(message.body.decode() + "\\n")

def plain(messages, context):
    note(messages)
    return "CONSUME_SUCCESS"

async def later(messages, context):
    note(messages)
    return "CONSUME_SUCCESS"

class Called:
    async def __call__(self, messages, context):
        note(messages)
        return "CONSUME_SUCCESS"

called = Called()

def bad(messages, context):
    note(messages)
    if messages[0].body == b"b":
        sys.exit(3)
    return "CONSUME_SUCCESS"
"""


@pytest.mark.parametrize("name", ["plain", "later", "called"])
def test_a_function_is_called_for_each_message(
    name: str, sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    _send(sandbox, "a", "b", "c")
    path = _file(tmp_path, _HANDLERS.format(path=str(tmp_path / "seen")))
    _consume(capsys, "--handler", f"{path}:{name}", "--count", "3")
    assert sorted((tmp_path / "seen").read_text().split()) == ["a", "b", "c"]
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (3, 0)


def test_a_function_that_exits_fails_one_message(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, "a", "b", "c")
    path = _file(tmp_path, _HANDLERS.format(path=str(tmp_path / "seen")))
    err = _until(sandbox, "the listener raised SystemExit: 3 at listener.py:", "--handler", f"{path}:bad")
    assert "2 consumed, 1 failed" in err
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (3, 1)


def test_a_command_gets_the_body_and_what_is_known_of_it(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    _send(sandbox, "the body", KEYS="k1 k2", TAGS="A")
    out = tmp_path / "out"
    script = f'env | grep ^RMQ_ | sort > "{out}"; cat >> "{out}"'
    _consume(capsys, "--exec", f"sh -c '{script}'", "--count", "1")
    lines = out.read_text().splitlines()
    assert lines == [
        "RMQ_BROKER=broker-a", "RMQ_COUNT=1", "RMQ_KEYS=k1 k2", "RMQ_MESSAGE_ID=key-0", "RMQ_QUEUE_ID=0",
        "RMQ_QUEUE_OFFSET=0", "RMQ_RECONSUME_TIMES=0", "RMQ_TAGS=A", "RMQ_TOPIC=T", "the body",
    ]  # fmt: skip
    assert _stored(sandbox) == 1


def test_a_command_gets_several_messages_as_lines(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    _send(sandbox, "a", "b")
    out = tmp_path / "out"
    _consume(capsys, "--exec", f"""sh -c 'cat > "{out}"'""", "--count", "2", "--batch", "2")
    assert [json.loads(line)["body"] for line in out.read_text().splitlines()] == ["a", "b"]


def test_a_command_that_fails_sends_its_message_back(sandbox: ThreadedSandbox) -> None:
    _send(sandbox, "a", "b")
    _until(sandbox, "grep ended with exit code 1", "--exec", "grep -q b")
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (2, 1)


@pytest.mark.parametrize(
    ("command", "says"),
    [("sh -c 'kill -9 $$'", "sh was ended by SIGKILL (EXCEPTION)"), ("sh -c 'exit 75'", "RECONSUME_LATER (FAILED)")],
    ids=["signal", "retry later"],
)
def test_how_a_command_ended(command: str, says: str, sandbox: ThreadedSandbox) -> None:
    _send(sandbox, "a")
    _until(sandbox, says, "--exec", command, code=8)
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (1, 1)


def test_a_command_gets_the_messages_of_a_queue_in_order(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    _send(sandbox, "a", "b", "c")
    out = tmp_path / "out"
    script = f'body=$(cat); echo $body$RMQ_RECONSUME_TIMES >> "{out}"; test $body$RMQ_RECONSUME_TIMES != b0 || exit 75'
    result = _consume(capsys, "--orderly", "--exec", f"sh -c '{script}'", "--count", "3")
    assert out.read_text().split() == ["a0", "b0", "b1", "c0"]
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (3, 0)
    assert "SUSPEND_CURRENT_QUEUE_A_MOMENT (FAILED). The queue waits for 1 s" in result.err


_UNTIL = ("--until-caught-up", "--for", "2m", "--workers", "1")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--exec", "true"), 0, "Left G: 3 consumed, 0 failed."),
        (("--exec", "grep -q b"), 8, "2 messages that failed will be redelivered later"),
        (("--exec", "grep -q b", "--delay-level", "-1"), 8, "2 messages became dead letters"),
        (("--exec", "true", "--skip-if-behind", "1"), 0, "Left G: 1 consumed, 0 failed, 2 skipped."),
        (("--exec", "true", "--skip-older-than", "1h"), 0, "Left G: 3 consumed, 0 failed."),
        (("--exec", "true", "--broadcast"), 0, "Left G: 3 consumed, 0 failed."),
    ],
    ids=["all", "failed", "dead", "behind", "young", "broadcasting"],
)
def test_it_ends_when_the_group_has_caught_up(
    words: tuple[str, ...], code: int, says: str, sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    _send(sandbox, "a", "b", "c")
    result = _consume(capsys, *words, *_UNTIL, code=code)
    assert says in result.err
    assert "did not catch up" not in result.err


def _end_when(is_over: Callable[[CaughtUp], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let --for be over once a condition is met, however long that takes."""

    async def end(self: ConsumeRun, client: Client) -> None:
        while self._caught_up is None or not is_over(self._caught_up):
            await pause(client.clock, 0.01)
        self._over.set()

    monkeypatch.setattr(ConsumeRun, "_end_later", end)


def test_a_group_that_has_not_caught_up_in_time_says_where(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    _send(sandbox, "a", "b", "c")
    _end_when(lambda caught_up: bool(caught_up.left()), monkeypatch)
    words = ("--exec", "sleep 600", "--until-caught-up", "--for", "3s", "--drain", "0s")
    result = _consume(capsys, *words, code=8)
    assert "G did not catch up within --for: T@broker-a:0 before 3." in result.err


def test_only_what_is_not_consumed_is_named(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _send(sandbox, "a", "b")
    seen = tmp_path / "seen"
    seen.touch()
    told: set[str] = set()
    unknown = CaughtUp.unknown

    def note(caught_up: CaughtUp) -> set[str]:
        told.update(unknown(caught_up))
        return unknown(caught_up)

    # The end must not fall into a second look, which forgets what the first one could not read.
    monkeypatch.setattr("rmqctl.cli.consume.consume_run._CAUGHT_UP_LOOK_S", 3600)
    monkeypatch.setattr(CaughtUp, "unknown", note)
    _end_when(lambda _: bool(told) and seen.read_text() == "\n\n", monkeypatch)
    command = f"""sh -c 'echo >> "{seen}"'"""
    result = _consume(capsys, "missing", "--exec", command, "--until-caught-up", "--for", "3s", code=8)
    assert "G did not catch up within --for: the end of missing (" in result.err
    assert _stored(sandbox) == 2


def test_a_bug_in_the_look_ends_the_run(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(_: CaughtUp) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(CaughtUp, "look", look)
    result = call(capsys, *RUN, "--exec", "true", "--until-caught-up", "--yes")
    assert (result.code, "ZeroDivisionError" in result.err) == (1, True), result


def test_offsets_that_can_not_be_read_are_named_and_no_success(sandbox: ThreadedSandbox) -> None:
    _send(sandbox, "a")

    def silence(inner: Sandbox) -> None:
        inner.faults.answer(Q.GET_TOPIC_STATS_INFO, R.SYSTEM_ERROR, remark="no", count=None)

    sandbox.call(silence)
    said = "The end of T at broker-a is unknown: "
    err = _until(sandbox, said, "--exec", "true", "--until-caught-up", code=8)
    assert "G did not catch up before the signal: the end of " in err


def test_duplicates_are_acknowledged_unread(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _send(sandbox, "a", "b")
    _send(sandbox, "c", "d")  # with the same keys
    result = _consume(capsys, "--print", "-o", "jsonl", "--dedup", *_UNTIL[:3])
    assert [json.loads(line)["body"] for line in result.out.splitlines()] == ["a", "b"]
    assert "Messages of T are acknowledged unread: duplicates by their unique key." in result.err
    assert _stored(sandbox) == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [((), "Left G: 1 consumed, 2 failed"), (("--ack-index", "rocketmq"), "Left G: 0 consumed, 3 failed")],
    ids=["exact", "rocketmq"],
)
def test_an_ack_index_of_a_failed_batch(
    words: tuple[str, ...], says: str, sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    _send(sandbox, "a", "b", "c")
    path = _file(tmp_path, "def f(messages, context):\n    context.ack_index = 0\n    return 'RECONSUME_LATER'")
    result = _consume(capsys, "--handler", f"{path}:f", "--batch", "3", *words, *_UNTIL, code=8)
    assert says in result.err


def test_debug_shows_the_traceback_of_each_cause_once(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, "a", "b")
    path = _file(tmp_path, "def f(messages, context):\n    raise KeyError('id')")
    err = _until(sandbox, "raise KeyError('id')", "--handler", f"{path}:f", "--debug", code=8)
    assert "Traceback" not in err
    assert "Left G: 0 consumed, 2 failed; 2 sent back; batches: 2 EXCEPTION." in err


@pytest.mark.parametrize("limit", [(), ("--count", "5")], ids=["endless", "count"])
def test_a_run_in_which_all_fail_is_no_success(limit: tuple[str, ...], sandbox: ThreadedSandbox) -> None:
    _send(sandbox, "a")
    err = _until(sandbox, "false ended with exit code 1", "--exec", "false", *limit, code=8)
    assert "Left G: 0 consumed, " in err


def test_a_command_that_reads_nothing_may_succeed(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _send(sandbox, "x" * 1_000_000)
    _consume(capsys, "--exec", "true", "--count", "1")
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (1, 0)


@pytest.mark.by_the_clock
def test_a_command_that_takes_too_long_is_killed_with_what_it_started(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    """The command must have started when its time is over: 10 s are much, but no condition to wait for."""
    _send(sandbox, "a", "b")
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    # Whoever runs it holds the pipe open for writing: its end is seen by who reads.
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    script = f'[ "$(cat)" = b ] && exit; exec 3> "{alive}"; echo started >&3; sleep 600 & wait'
    words = ("--exec", f"sh -c '{script}'", "--consume-timeout", "10s", "--drain", "2m")
    _until(sandbox, "took too long", *words)
    os.set_blocking(reader, True)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "started\n"
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (2, 1)


def test_the_time_is_over(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = _consume(capsys, "--print", "--for", "100ms")
    assert (result.out, _member_count(sandbox)) == ("", 0)


# The end of a process

_WAITING = """
def wait(messages, context):
    with open({entered!r}, "w") as pipe:
        pipe.write("in\\n")
    with open({gate!r}) as pipe:
        pipe.read()
    return "CONSUME_SUCCESS"
"""


class _Waiting:
    """A program whose listener waits for a pipe."""

    def __init__(self, sandbox: ThreadedSandbox, tmp_path: Path, *words: str) -> None:
        self.entered, self.gate = tmp_path / "entered", tmp_path / "gate"
        for pipe in (self.entered, self.gate):
            os.mkfifo(pipe)
        path = _file(tmp_path, _WAITING.format(entered=str(self.entered), gate=str(self.gate)))
        self.process = program(
            *RUN, "--handler", f"{path}:wait", "--workers", "1", "--yes", *words, namesrv=sandbox.addr
        )

    def await_listener(self) -> None:
        assert self.entered.read_text() == "in\n"

    def let_go(self) -> None:
        self.gate.write_text("go")

    def await_line(self, said: str) -> str:
        """Read stderr up to a line; return it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if said in line:
                return line
        raise AssertionError(f"it never said {said!r}")

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=120)
        return self.process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_was_pulled_be_consumed(
    number: signal.Signals, sandbox: ThreadedSandbox, tmp_path: Path
) -> None:
    _send(sandbox, "a", "b")
    running = _Waiting(sandbox, tmp_path)
    running.await_listener()
    running.process.send_signal(number)
    assert "2 messages left to consume" in running.await_line("Ending")
    running.let_go()
    running.await_listener()
    running.let_go()
    code, err = running.end()
    assert (code, "Left G: 2 consumed, 0 failed." in err, "Traceback" in err) == (0, True, False)
    assert (_stored(sandbox), _member_count(sandbox)) == (2, 0)


def test_what_is_not_done_within_the_drain_is_named(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, "a", "b")
    running = _Waiting(sandbox, tmp_path, "--drain", "500ms")
    running.await_listener()
    running.let_go()
    running.await_listener()
    running.process.terminate()
    code, err = running.end()
    assert code == 8
    assert "rmqctl: 1 message not acknowledged, " in err
    assert "from offset 1." in err
    assert (_stored(sandbox), _member_count(sandbox)) == (1, 0)


def test_what_is_not_stored_at_the_end_is_named(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, "a")
    running = _Waiting(sandbox, tmp_path)
    running.await_listener()
    sandbox.faults.answer(Q.UPDATE_CONSUMER_OFFSET, R.SYSTEM_ERROR, remark="no", count=None)
    running.process.terminate()
    running.await_line("Ending")
    running.let_go()
    code, err = running.end()
    assert (code, "Left G: 1 consumed, 0 failed." in err) == (8, True)
    (said,) = [line for line in err.splitlines() if line.startswith("rmqctl: Not stored;")]
    assert said.endswith(": offset of T:0 at broker-a.")
    assert (_stored(sandbox), _member_count(sandbox)) == (0, 0)


def test_a_second_signal_ends_it_at_once_and_says_what_is_left(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, "a", "b")
    running = _Waiting(sandbox, tmp_path, "--drain", "1h")
    running.await_listener()
    running.process.terminate()
    running.await_line("Ending")
    running.process.terminate()
    code, err = running.end()
    assert (code, "2 messages not acknowledged" in err, "Traceback" in err) == (130, True, False)
    # It has left all the same.
    assert (_stored(sandbox) <= 0, _member_count(sandbox)) == (True, 0)


@pytest.mark.by_the_clock
def test_however_many_signals_come_it_says_what_was_not_stored(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    """It waits 10 s for an answer."""
    _send(sandbox, "a", "b")
    running = _Waiting(sandbox, tmp_path, "--drain", "1h", "--timeout", "30s")
    running.await_listener()
    running.let_go()
    running.await_listener()
    sandbox.faults.silence(Q.UPDATE_CONSUMER_OFFSET, count=None)
    running.process.terminate()
    running.await_line("Ending")
    for _ in range(4):
        running.process.terminate()
        select.select([], [], [], 0.1)
    code, err = running.end()
    assert (code, "Traceback" in err) == (130, False)
    assert "rmqctl: Not stored;" in err
    assert ": offset of T:0" in err
    assert "1 message not acknowledged" in err
    assert _member_count(sandbox) == 0


def test_a_signal_while_it_joins_ends_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = program(*RUN, "--print", "--yes", namesrv=address)
        connection, _ = silent.accept()
        process.terminate()
        _, err = process.communicate(timeout=120)
        connection.close()
    assert (process.returncode, "Traceback" in err) == (0, False)


def test_a_ctrl_c_at_the_terminal_lets_commands_end(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, "a")
    entered, gate = tmp_path / "entered", tmp_path / "gate"
    for pipe in (entered, gate):
        os.mkfifo(pipe)
    script = f"""sh -c 'echo in > "{entered}"; cat "{gate}"'"""
    process = program(*RUN, "--exec", script, "--yes", namesrv=sandbox.addr, start_new_session=True)
    assert entered.read_text() == "in\n"
    # As a terminal does: to all of the foreground.
    os.killpg(process.pid, signal.SIGINT)
    assert process.stderr is not None
    while "Ending" not in process.stderr.readline():
        assert process.poll() is None
    gate.write_text("done\n")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "done\n"), err
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (1, 0)


@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_a_reader_that_has_seen_enough_sends_nothing_back(form: str, sandbox: ThreadedSandbox) -> None:
    _send(sandbox, *(f"{number} {'x' * 900}" for number in range(500)))
    process = program(*RUN, "--print", "--yes", "-o", form, namesrv=sandbox.addr)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as errors:
        err = errors.read()
    assert (process.wait(120), "Traceback" in err, "not acknowledged" in err) == (0, False, False)
    assert (_sent_back_count(sandbox), _member_count(sandbox)) == (0, 0)
    assert _stored(sandbox) < 500


def test_an_output_on_a_full_disk_is_one_sentence(sandbox: ThreadedSandbox) -> None:
    _send(sandbox, "a", "b")
    with Path("/dev/full").open("w") as full:
        process = program(*RUN, "--print", "--yes", namesrv=sandbox.addr, stdout=full)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, "The output cannot be written: no space left on device." in err) == (1, True)
    assert (_sent_back_count(sandbox), _stored(sandbox) <= 0) == (0, True)


def test_a_process_that_is_killed_has_acknowledged_nothing_more(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, "a", "b")
    running = _Waiting(sandbox, tmp_path)
    running.await_listener()
    running.process.kill()
    assert running.end()[0] == -signal.SIGKILL
    assert _stored(sandbox) <= 0


# Listeners that misbehave


def _running(sandbox: ThreadedSandbox, tmp_path: Path, text: str, *words: str) -> subprocess.Popen[str]:
    """Run a program with a listener."""
    return program(*RUN, "--handler", f"{_file(tmp_path, text)}:f", "--yes", *words, namesrv=sandbox.addr)


def _line(process: subprocess.Popen[str], said: str) -> str:
    """Read stderr up to a line; return it."""
    assert process.stderr is not None
    for line in process.stderr:
        if said in line:
            return line
    raise AssertionError(f"it never said {said!r}")


_BLOCKING = """
async def f(messages, context):
    with open({gate!r}) as pipe:
        pipe.read()
    return "CONSUME_SUCCESS"
"""


@pytest.mark.by_the_clock
def test_a_coroutine_that_blocks_is_told_of_while_it_does(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    """It has to block for 5 s."""
    _send(sandbox, "a")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = _running(sandbox, tmp_path, _BLOCKING.format(gate=str(gate)), "--count", "1")
    line = _line(process, "held up for 5 s")
    assert line.startswith(
        "rmqctl: The event loop has been held up for 5 s by listener.f(listener.py:3): no heartbeats"
    )
    gate.write_text("go")
    _, err = process.communicate(timeout=120)
    assert "The event loop runs again; it was held up for " in err
    assert "Left G: 1 consumed, 0 failed." in err
    assert (process.returncode, _stored(sandbox)) == (0, 1)


def test_a_listener_that_ends_the_process_has_acknowledged_nothing(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, "a")
    process = _running(sandbox, tmp_path, "import os\ndef f(messages, context): os._exit(7)")
    _, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (7, False)
    assert (_stored(sandbox) <= 0, _sent_back_count(sandbox), _member_count(sandbox)) == (True, 0, 0)


@pytest.mark.parametrize("word", ["def", "async def"])
def test_a_keyboard_interrupt_that_a_listener_raises_is_its_own(
    word: str, sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    _send(sandbox, "a", "b")
    text = f"{word} f(messages, context):\n    if messages[0].body == b'a': raise KeyboardInterrupt"
    text += "\n    return 'CONSUME_SUCCESS'"
    err = _until(sandbox, "raised KeyboardInterrupt at ", "--handler", f"{_file(tmp_path, text)}:f")
    assert "Left G: 1 consumed, 1 failed; 1 sent back; batches: 1 EXCEPTION." in err
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (2, 1)


def test_what_batches_came_to_is_said_at_the_end(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    _send(sandbox, *"abcd")
    answers = "{b'a': None, b'b': 'RECONSUME_LATER', b'c': 7, b'd': 'CONSUME_SUCCESS'}"
    text = f"def f(messages, context): return {answers}[messages[0].body]"
    err = _until(sandbox, "the listener returned 7 instead", "--handler", f"{_file(tmp_path, text)}:f")
    assert "Left G: 1 consumed, 3 failed; 3 sent back; batches: 1 EXCEPTION, 1 RETURNNULL, 1 FAILED." in err


@pytest.mark.by_the_clock
def test_workers_that_all_hang_are_told_of(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    """A listener has to take longer than 10 s, and the next one less."""
    _send(sandbox, "a", "b")
    # The second message has as long as the first one takes too long.
    running = _Waiting(sandbox, tmp_path, "--consume-timeout", "10s")
    running.await_listener()
    assert running.await_line("hang").startswith("rmqctl: The only worker hangs in the listener, beyond its time")
    running.let_go()
    running.await_line("too late for its result to count (TIME_OUT)")
    running.await_listener()
    running.let_go()
    running.process.terminate()
    code, err = running.end()
    assert (code, "Traceback" in err) == (0, False)
    assert "; batches: 1 TIME_OUT." in err
    assert (_stored(sandbox), _sent_back_count(sandbox)) == (2, 1)


_THREADING = """
import threading

async def f(messages, context):
    # Of a plain function it would be a daemon, as the worker is.
    threading.Thread(target=threading.Event().wait, name="mine").start()
    return "CONSUME_SUCCESS"
"""


def test_a_thread_that_outlives_its_listener_is_named_and_holds_nothing(
    sandbox: ThreadedSandbox, tmp_path: Path
) -> None:
    _send(sandbox, "a")
    process = _running(sandbox, tmp_path, _THREADING, "--count", "1")
    _, err = process.communicate(timeout=120)
    assert "without waiting for 1 thread that the listener started: mine." in err
    assert (process.returncode, _stored(sandbox), _member_count(sandbox)) == (0, 1, 0)


@pytest.mark.parametrize(
    ("start", "says"),
    [((), ""), (("--from", "latest"), "--from does not count, because the group has offsets in 1 of")],
)
def test_a_start_that_does_not_count_is_said(
    start: tuple[str, ...], says: str, sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    _send(sandbox, "a", "b")
    _consume(capsys, "--print", "--count", "1")
    result = call(capsys, "consume", "run", GROUP, TOPIC, *start, "--print", "--count", "1", "--yes", "-q")
    assert result.code == 0
    assert says in result.err if says else result.err == ""


@pytest.mark.parametrize(
    ("field", "says"), [("retryQueueNums", "loses messages"), ("consumeEnable", "gives this group no messages")]
)
def test_a_configuration_that_loses_messages_is_said_at_joining(
    field: str, says: str, sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    _send(sandbox, "a")
    _consume(capsys, "--print", "--count", "1")
    option = {"retryQueueNums": ("--retry-queues", "0"), "consumeEnable": ("--no-consume",)}[field]
    assert call(capsys, "group", "update", GROUP, *option, "--yes").code == 0
    result = call(capsys, *RUN, "--print", "--for", "100ms", "--yes")
    assert f"broker-a {says}" in result.err


def test_a_second_member_with_the_same_id_is_refused(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    first = program(*RUN, "--print", "--instance", "same", "--yes", namesrv=sandbox.addr)
    try:
        assert first.stderr is not None
        assert any("Joined" in line for line in first.stderr)
        words = (*RUN, "--print", "--instance", "same", "--for", "100ms", "--yes")
        result = call(capsys, *words)
        assert (result.code, "already has a member" in result.err) == (1, True)
        assert call(capsys, *words, "--force").code == 0
    finally:
        first.terminate()
        first.communicate(timeout=120)


def test_messages_that_do_not_come_in_time_are_missed(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *RUN, "--print", "--count", "2", "--for", "300ms", "--yes")
    assert result.code == 6
    assert "2 of 2 messages did not arrive within --for." in result.err


@pytest.mark.by_the_clock
def test_a_timeout_is_for_requests_and_ends_nothing(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    """By the clock: --for must be longer than --timeout, of which each request gets a third: 100 ms to answer."""
    result = call(capsys, *RUN, "--print", "--timeout", "300ms", "--for", "1500ms", "--yes")
    assert result.code == 0
    assert "Cannot pull" not in result.err
