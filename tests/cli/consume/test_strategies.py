"""Every strategy in consume run: what it is told, what is refused, and which queues it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.model.group import RunningInfo
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.rules.allocate import class_of_strategy
from rmqctl.rules.group_views import strategy_name
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.topics.table import Topic
from tests.cli.calls import Result, call, closed_address
from tests.sandbox.peer import Peer
from tests.sandbox.sender import pairs, send

Captured = pytest.CaptureFixture[str]
GROUP, TOPIC = "G", "T"
RUN = ("consume", "run", GROUP, TOPIC, "--from", "earliest", "--print", "--yes")
ROOMS_FIRST = str(Path(__file__).parent.parent.parent.parent / "plugins" / "rooms_first.py")
_STRATEGY = "from rmqctl.plugin import hookimpl, AllocationError\n@hookimpl\ndef rmqctl_strategies():\n    return "
_ROOMS = "from rmqctl.plugin import hookimpl\n@hookimpl\ndef rmqctl_site_resolvers():\n    return "


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RMQCTL_PLUGINS", raising=False)


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Run two brokers with two queues of the topic each, and a message in each queue that is called as the queue is."""

    async def seed(inner: Sandbox) -> None:
        for name, broker in inner.brokers.items():
            broker.topics.put(Topic(TOPIC, 2, 2))
            peer = await Peer.of_broker(inner, name)
            for queue_id in (0, 1):
                body = f"{name}:{queue_id}"
                answer = await send(peer, TOPIC, body.encode(), e=queue_id, properties=pairs(UNIQ_KEY=body))
                assert answer.code == R.SUCCESS
            await peer.aclose()

    with ThreadedSandbox(brokers=2) as running:
        running.run(seed(running.sandbox))
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def _plugin(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.py"
    path.write_text(text)
    return str(path)


# What is refused before anything is asked


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--strategy", "averagly"), "Did you mean averagely?"),
        (("--strategy", "zzz"), "circle, consistent-hash, config, machine-room, machine-room-nearby."),
        (("--strategy", "sticky"), "previous owner of each queue"),
        (("--strategy", "lag-weighted"), "depends on lags"),
        (("--strategy", "pop-share"), "among clients that pop"),
        (("--strategy", "POP_SHARE"), "among clients that pop"),
        (("--strategy", "config"), "--strategy config requires --queue. Add --queue broker-a:0-3"),
        (("--strategy", "CONFIG"), "--strategy config requires --queue."),
        (("--strategy", "machine-room"), "needs the rooms. Add --room ROOM"),
        (("--queue", "broker-a"), "--queue is for config, not for averagely."),
        (("--strategy", "config", "--queue", "a b"), "invalid queue"),
        (("--room", "r"), "--room is for machine-room, not for averagely."),
        (("--virtual-nodes", "3"), "is for consistent-hash and machine-room-nearby, not for averagely."),
        (("--strategy", "consistent-hash", "--virtual-nodes", "0"), "--virtual-nodes"),
        (("--strategy", "consistent-hash", "--virtual-nodes", "10001"), "--virtual-nodes"),
        (("--site-of", "-"), "--site-of is for machine-room-nearby"),
        (("--strategy", "machine-room-nearby", "--site-of", "nobody"), "siteOf 'nobody'"),
        (("--inner", "circle"), "--inner is for machine-room-nearby"),
        (("--strategy", "machine-room-nearby", "--inner", "sticky"), "--inner sticky is not supported"),
        (("--strategy", "machine-room-nearby", "--inner", "config"), "'config' cannot be used"),
        (("--strategy-option", "a=1"), "--strategy-option is for strategies of plugins, not for averagely."),
        (("--strategy-option", "a"), "NAME=VALUE, not 'a'"),
        (("--strategy-option", "a=1", "--strategy-option", "a=2"), "a is given twice"),
        (("--plugin", "/nowhere/at-all.py"), "does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_makes_no_sense_asks_nobody(words: tuple[str, ...], says: str, capsys: Captured) -> None:
    result = call(capsys, "-n", closed_address(), *RUN, *words)
    assert (result.code, result.out) == (2, "")
    assert says in " ".join(result.err.split())


# What is refused before the group is joined


def _nobody_came(sandbox: ThreadedSandbox) -> bool:
    async def go(inner: Sandbox) -> bool:
        peer = await Peer.of_broker(inner)
        answer = await peer.ask(Q.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=GROUP)
        await peer.aclose()
        return answer.code != R.SUCCESS and inner.brokers["broker-a"].groups.find(GROUP) is None

    return sandbox.run(go(sandbox.sandbox))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--strategy", "machine-room", "--room", "east"), 5, "east@NAME. Brokers: broker-a"),
        (("--strategy", "config", "--queue", "broker-a:2"), 2, "T has no readable queue broker-a:2."),
        (("--strategy", "config", "--queue", "broker-a", "--queue", "broker-c"), 2, "no readable queue broker-c."),
        (("--strategy", "machine-room-nearby", "--site-of", "zone-suffix", "--plugin", ROOMS_FIRST), 2,
         "machine-room-nearby cannot share T: The room of broker broker-a is unknown."),
        (("--strategy", "rooms-first", "--plugin", ROOMS_FIRST, "--strategy-option", "maxShare=0"), 2,
         "share T: Invalid maxShare 0."),
        (("--strategy", "rooms-first", "--plugin", ROOMS_FIRST, "--strategy-option", "maxshare=2"), 2,
         "option 'maxshare' for rooms-first"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_the_strategy_can_not_do_there_joins_nothing(
    words: tuple[str, ...], code: int, says: str, sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    result = call(capsys, *RUN, *words)
    assert (result.code, result.out) == (code, "")
    assert says in " ".join(result.err.split())
    assert _nobody_came(sandbox)


@pytest.mark.parametrize("made", ["lambda *_: 1 / 0", "lambda *_: {'c9': []}", "lambda *_: None"])
def test_a_plugin_that_fails_joins_nothing(
    made: str, sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    file = _plugin(tmp_path, f"{_STRATEGY}{{'mine': {made}}}\n")
    result = call(capsys, *RUN, "--strategy", "mine", "--plugin", file)
    assert (result.code, result.out) == (1, "")
    assert f"Strategy mine of plugin {file} failed" in result.err
    assert _nobody_came(sandbox)


# Which queues are taken


def _bodies(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return sorted(json.loads(line)["body"] for line in result.out.splitlines())


@pytest.mark.parametrize(
    "words",
    [
        (), ("--strategy", "AVG_BY_CIRCLE"), ("--strategy", "consistent-hash", "--virtual-nodes", "3"),
        ("--strategy", "MACHINE_ROOM_NEARBY-AVG"), ("--strategy", "machine-room-nearby", "--inner", "circle"),
        ("--strategy", "config", "--queue", "broker-a", "--queue", "broker-b:0-7"),
        ("--strategy", "rooms-first", "--plugin", ROOMS_FIRST, "--strategy-option", "maxShare=1.2"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_who_is_alone_gets_everything(words: tuple[str, ...], sandbox: ThreadedSandbox, capsys: Captured) -> None:
    assert sandbox.addr
    result = call(capsys, *RUN, *words, "--count", "4", "--for", "2m", "-o", "jsonl")
    assert _bodies(result) == ["broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1"]


def test_by_configuration_only_what_it_was_told_is_taken_of_each_topic(
    sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    words = (*RUN, "--strategy", "config", "-o", "jsonl", "--for", "2m")
    assert _bodies(call(capsys, *words, "--queue", "broker-b:0-1", "--count", "2")) == ["broker-b:0", "broker-b:1"]
    assert _bodies(call(capsys, *words, "--queue", "broker-a:1", "--count", "1")) == ["broker-a:1"]
    stored = sandbox.call(
        lambda inner: {
            (name, topic, queue_id)
            for name, broker in inner.brokers.items()
            for (topic, _), queues in broker.offsets.stored.items()
            for queue_id, offset in queues.items()
            if offset > 0
        }
    )
    assert ("broker-a", TOPIC, 0) not in stored
    assert {each for each in stored if each[1] == TOPIC} == {
        ("broker-b", TOPIC, 0), ("broker-b", TOPIC, 1), ("broker-a", TOPIC, 1),
    }  # fmt: skip


def test_the_plugins_options_arrive_as_what_they_are(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    assert sandbox.addr
    seen = tmp_path / "seen"
    text = f"from pathlib import Path\n{_STRATEGY}{{'mine': mine}}\ndef mine(queues, ids, options):\n"
    text += f"    Path({str(seen)!r}).write_text(repr(options))\n    return {{ids[0]: queues}}\n"
    words = ("--strategy", "mine", "--plugin", _plugin(tmp_path, text))
    given = ("a=1.5", "b=east", "c=[1]", "d=", "e=x=y", 'f={"east-broker": "east"}')
    options = [word for each in given for word in ("--strategy-option", each)]
    assert len(_bodies(call(capsys, *RUN, *words, *options, "--count", "1", "-o", "jsonl"))) == 1
    assert seen.read_text() == repr(
        {"a": 1.5, "b": "east", "c": [1], "d": "", "e": "x=y", "f": {"east-broker": "east"}}
    )


def test_a_resolver_of_a_plugin_tells_rooms(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    """A member in a room of its own has no queues there; all rooms without clients are shared among everybody."""
    assert sandbox.addr
    file = _plugin(tmp_path, f"{_ROOMS}{{'last': lambda kind, name: name[-1]}}\n")
    words = ("--strategy", "machine-room-nearby", "--site-of", "last", "--plugin", file, "--instance", "c.a")
    result = call(capsys, *RUN, *words, "--count", "4", "--for", "2m", "-o", "jsonl")
    assert len(_bodies(result)) == 4


@pytest.mark.parametrize(
    "name", ["averagely", "circle", "consistent-hash", "config", "machine-room", "machine-room-nearby", "rooms-first"]
)
def test_members_are_shown_with_their_strategy(name: str) -> None:
    """What a consumer says of itself is what group members reads out of it; for RocketMQ's it is the class."""
    properties = {"allocateMessageQueueStrategy": class_of_strategy(name)}
    assert strategy_name(RunningInfo(properties, {}, {}, {}, ())) == name
    assert class_of_strategy(name).startswith("Allocate") is (name != "rooms-first")
