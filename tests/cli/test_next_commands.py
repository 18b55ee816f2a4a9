"""The next command of each finding leads on: it can be run, and shows the fact behind the finding."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from rmqctl.diagnose.finding import Finding
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.scenarios.producer import ScenarioProducer
from tests.admin.cluster import NOW_MS, Cluster, held, running, subscribed
from tests.cli.group.groups import WORDS
from tests.cli.scripted_server import Serve
from tests.diagnose import test_checks, test_progress
from tests.diagnose.groups import Change, at_a, both, healthy, idle, look, members, pulling, sick
from tests.scripted_peer import SILENCE, refused

from .calls import Result, call

Captured = pytest.CaptureFixture[str]

# What the output of the next command contains. Findings of one code with several causes have several rows.
SHOWS = {
    "ALO001": "(?s)averagely.*circle",
    "ALO002": "Clients without the queues of the group's strategy: .*c",
    "ALO003": r"T .* -\n|%RETRY%G .* -\n",
    "ALO004": "c1,c2",
    "CFG001": "consumeEnable|forbiddenTopics|consumeBroadcastEnable|retryMaxTimes|retryQueueNums",
    "CFG002": "broker-a has no configuration",
    "CFG003": "(?s)NOTIFY.* no ",
    "CFG004": "(?s)CPP.*JAVA",
    "CLK001": "(?s)clock +broker-a.* ms .*clock +broker-b.* ms ",
    "CLK002": "clocks relative to this machine's: .*c1",
    "CLK003": "2030-03-17|202[67]-",
    "CLK004": "clocks relative to this machine's: .*c1",
    "DLQ001": "%DLQ%G|dead letter|perm=2",
    "DLQ002": "%DLQ%G|dead letter",
    "DLQ003": "perm=2",
    "DLY001": r"late: delay level 2 by 5\ds",
    "MEM001": "192.0.2.2,192.0.2.3",
    "MEM002": "c2 .* broker-a",
    "MEM003": "(?s)CLUSTERING.*BROADCASTING",
    "MEM004": "(?s)CONSUME_PASSIVELY.*CONSUME_ACTIVELY",
    "MEM005": "5.3.1,5.4.0|(?s:CPP.*JAVA)",
    "MEM006": r"1m00s",
    "MEM007": r"(?s)\byes\b.*\bno\b|\bno\b.*\byes\b",
    "MEM008": r"c[25] +0",
    "MEM009": "c2 .* - ",
    "OFF001": "deleted before this group read them",
    "OFF002": "OFFSET_BEYOND_MAX",
    "OFF003": "gone",
    "OFF004": "until readQueueNums is [36]",
    "OFF005": "(?s)no members.*|LAG",
    "OFF006": r"UNACKED",
    "OFF009": "unknown on 1 queue: NEVER_COMMITTED",
    "OFF011": r"CONSUMER[^\n]*\nT +broker-a +0 +100 +75",
    "OFF012": r"U +broker-a +0 +10 +3 +7 .* -\n",
    "OFF013": "LAG",
    "PRG002": r"(?s)ERROR.* moved in |NOT_PULLED .* has not pulled for 2m00s|PAUSED|T +broker-a +0 +100 +75 +25 .* -\n",
    "OFF014": "around the offsets of G in T",
    "ORD001": "does not have the lock of 2 queues",
    "ORD002": "keeps the lock",
    "POP001": "reviveInterval +1000",
    "PUL001": r"broker-a +no ",
    "PUL002": r"broker-a .* T +",
    "PUL003": r"broker-a +yes +no",
    "PUL004": "write-only",
    "PUL005": "enablePropertyFilter +false",
    "RTY001": "retryQueueNums=0",
    "RTY002": "brokerPermission +4|%RETRY%G|has no configuration|read-only",
    "RTY003": r"(?s)^(?!.*broker-a).*broker-b",
    "RTY004": r"c1 .* 5 ",
    "RTY005": "BLOCKED_IN_ORDER",
    "RTY006": r"%RETRY%G +broker-a +0 +20",
    "SKW001": "10025",
    "SKW002": "10025",
    "SKW004": r"(?s)STRATEGY.*averagely",
    "SKW005": r"c1 .* 100 ",
    "SUB001": r"T +TAG +A .* no ",
    "SUB002": r"U +TAG .* c2 ",
    "SUB003": "SQL92",
    "SUB004": r"T +TAG +X ",
    "SUB005": "older subscription",
    "SUB006": "2030-03-17|202[67]-",
    "SUB007": "older than its members",
    "SUB008": r"no +c1,c2 +- +broker-a",
    "SUB009": r"T +TAG +X ",
    "TRX001": r"of P for T, prepared .* ago, checked 5 times",
    "VER001": "4.8.0",
}
# Exit codes: done, refused, stuck, partial. 2 is a command that cannot be run, 5 one that finds nothing.
_LEADS_ON = frozenset({0, 3, 8, 10})


def _unknown_group(broker: Any) -> None:
    broker.configured.clear()
    broker.settings["autoCreateSubscriptionGroup"] = "false"


def _gone_offline(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        broker.groups.clear()


def _pulled_late(cluster: Cluster) -> None:
    """Let c1 hold both queues of broker-a, but pull only the second one."""
    for queue in cluster.brokers["broker-a"].topics["T"]:
        queue.max_offset = 500
    late, now = (
        {"lastPullTimestamp": at_ms, "lastConsumeTimestamp": at_ms} for at_ms in (NOW_MS - 121_000, NOW_MS - 1_000)
    )
    holds = {("T", "broker-a", 0): held(commit=100, **late), ("T", "broker-a", 1): held(commit=500, **now)}
    own = {("T", "broker-b", 0): held(commit=100, **now), ("T", "broker-b", 1): held(commit=100, **now)}
    wanted = [subscribed("T")]
    members(c1=running(holds, subscriptions=wanted, **WORDS), c2=running(own, subscriptions=wanted, **WORDS))(cluster)


# Findings with several causes, or of two readings, each with its own next command.
_MORE: list[tuple[str, Change, set[str]]] = [
    ("a broker that does not know the group", at_a(_unknown_group), {"RTY002"}),
    (
        "an offset of a deleted topic, and no members",
        both(at_a(lambda broker: broker.offsets["G"].update(gone={0: 1})), _gone_offline),
        {"OFF003"},
    ),
    ("a member that no longer pulls", _pulled_late, {"PRG002"}),
    ("a paused member", idle(lastConsumeTimestamp=NOW_MS - 120_000), {"PRG002"}),
    ("members that pull by themselves no longer pull", pulling, {"PRG002"}),
]
_SITUATIONS = [*test_checks.SICK, *_MORE]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted members do not move: the first second shows as much as the first minute."""
    monkeypatch.setattr("rmqctl.cli.clean_expired.run._WINDOW", "0.1s")
    monkeypatch.setattr("rmqctl.cli.clean_expired.run._PATIENCE_S", 0.1)
    monkeypatch.setattr("rmqctl.observe.clock_watch.PROBE_S", 0.5)


def _answering(cluster: Cluster) -> Cluster:
    """Let silent members refuse instead: only plain answers go over sockets."""
    for broker in cluster.brokers.values():
        broker.settings.setdefault("reviveInterval", "1000")
        for group in broker.groups.values():
            refusal = refused(R.SYSTEM_ERROR, "The Consumer not online")
            group.members = {name: refusal if each is SILENCE else each for name, each in group.members.items()}
    return cluster


def _run(words: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Run a next command; what a watch of a minute shows, one of half a second shows here."""
    monkeypatch.setattr("rmqctl.rules.health.idle._LEAST_WATCH_MS", 100)
    monkeypatch.setattr("rmqctl.rules.health.idle.POLL_OVERDUE_MS", 100)
    monkeypatch.setattr("rmqctl.rules.health.idle._SURE_WATCH_MS", 100)
    result = call(capsys, *shlex.split(words.replace("--for 70s", "--for 500ms"))[1:])
    assert result.code in _LEADS_ON, (words, result)
    return result


@pytest.mark.parametrize(("what", "change", "expected"), _SITUATIONS, ids=[row[0] for row in _SITUATIONS])
def test_the_next_command_shows_the_fact(
    what: str, change: Change, expected: set[str], capsys: Captured, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    (diagnosis,) = look(sick(change), sample_s=2 if "PRG002" in expected else 0).diagnoses
    assert expected <= {each.code for each in diagnosis.findings}
    found = [each for each in diagnosis.findings if each.symptom.next_command is not None]
    by_command: dict[str, list[Finding]] = {}
    for finding in found:
        by_command.setdefault(finding.symptom.next_command or "", []).append(finding)
    serve(_answering(sick(change)))
    for words, findings in by_command.items():
        result = _run(words, capsys, monkeypatch)
        for finding in findings:
            assert re.search(SHOWS[finding.code], result.out + result.err), (finding.code, words, result)


@pytest.mark.parametrize(("what", "facts", "expected"), test_progress.SICK, ids=[row[0] for row in test_progress.SICK])
def test_the_next_command_can_be_run(
    what: str, facts: Any, expected: set[tuple[str, str]], capsys: Captured, serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    serve(_answering(healthy()))
    commands = {
        symptom.next_command
        for check in test_progress.PROGRESS
        for symptom in check.find(facts)
        if symptom.next_command is not None
    }
    for words in commands:
        _run(words, capsys, monkeypatch)


def test_the_status_of_an_unreadable_topic_names_the_brokers_own_permission(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PUL004 sees the route; the topic itself may allow reads."""
    with ThreadedSandbox() as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)

        def close(own: Sandbox) -> None:
            (broker,) = own.brokers.values()
            broker.settings.update({"brokerPermission": "2"})
            broker.permission_changed()

        sandbox.call(lambda own: ScenarioProducer(own).create_topic("orders", 2))
        sandbox.call(close)
        result = call(capsys, "topic", "status", "orders")
        text = result.out + result.err
        shown = re.search(r"in the route: .*write-only.*(rmqctl broker show \S+ --key brokerPermission)", text)
        assert shown, result
        assert re.search("brokerPermission +2", call(capsys, *shlex.split(shown[1])[1:]).out)
