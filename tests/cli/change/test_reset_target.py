"""What can be asked for, and how times are read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from freezegun import freeze_time

from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
from rmqctl.cli.change.options import Consent
from rmqctl.cli.offset.reset_options import ResetOptions
from rmqctl.cli.offset.reset_target import RequestedTarget, parse_asked
from rmqctl.errors import UsageError
from tests.admin.cluster import Cluster
from tests.changes.change_case import message_cluster, store
from tests.cli.calls import call
from tests.cli.scripted_server import Serve
from tests.scripted_peer import V4_9_7

Captured = pytest.CaptureFixture[str]


def _asked(topic: Sequence[str] = ("T",), **given: Any) -> RequestedTarget:
    return parse_asked(ResetOptions(topic=list(topic), **given))


def _refusal(**given: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        _asked(**given)
    return caught.value


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ({"to_earliest": True}, TargetSpec(TargetKind.EARLIEST, 0, "--to-earliest")),
        ({"to_latest": True}, TargetSpec(TargetKind.LATEST, 0, "--to-latest")),
        ({"to_current": True}, TargetSpec(TargetKind.CURRENT, 0, "--to-current")),
        ({"to_offset": 0}, TargetSpec(TargetKind.OFFSET, 0, "--to-offset 0")),
        ({"to_offset": 2**63 - 1}, TargetSpec(TargetKind.OFFSET, 2**63 - 1, f"--to-offset {2**63 - 1}")),
        ({"shift_by": -5}, TargetSpec(TargetKind.SHIFT, -5, "--shift-by -5")),
        ({"shift_by": 0}, TargetSpec(TargetKind.SHIFT, 0, "--shift-by 0")),
        ({"to_group": "H"}, TargetSpec(TargetKind.GIVEN, 0, "--to-group H")),
        ({"from_file": "f"}, TargetSpec(TargetKind.GIVEN, 0, "--from-file f")),
        ({"to_time": "earliest"}, TargetSpec(TargetKind.EARLIEST, 0, "--to-earliest")),
        ({"to_time": "latest"}, TargetSpec(TargetKind.LATEST, 0, "--to-latest")),
    ],
)
def test_what_is_asked_for(given: dict[str, object], spec: TargetSpec) -> None:
    assert _asked(**given).spec == spec


@pytest.mark.parametrize(
    "given", [{"to_offset": -1}, {"to_offset": 2**63}, {"shift_by": 2**63}, {"shift_by": -(2**64)}]
)
def test_numbers_that_no_offset_is(given: dict[str, object]) -> None:
    assert _refusal(**given).sentence.startswith("--")


def test_just_one_thing_is_asked_for() -> None:
    assert _refusal().sentence == "No target is given."
    assert _refusal(to_offset=0, to_latest=True).sentence == "--to-latest and --to-offset cannot be used together."
    assert "--to-time, --by-duration, --to-earliest" in (_refusal().hint or "")


def test_topics_are_named_somehow() -> None:
    with pytest.raises(UsageError, match="No topics"):
        _asked(topic=(), to_latest=True)
    with pytest.raises(UsageError, match="--topic and --all-topics cannot"):
        _asked(all_topics=True, to_latest=True)
    assert _asked(topic=(), all_topics=True, to_latest=True).spec.kind is TargetKind.LATEST
    # A file names its topics itself.
    assert _asked(topic=(), from_file="f").path == "f"


# Times


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this machine stand in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        # The same moment in s and in ms.
        ("1795238400", "2026-11-21T05:20:00.000Z"),
        ("1795238400000", "2026-11-21T05:20:00.000Z"),
        ("1795238400123", "2026-11-21T05:20:00.123Z"),
        ("2026-11-21T05:20Z", "2026-11-21T05:20:00.000Z"),
        ("2026-11-21T05:20:00+02:00", "2026-11-21T03:20:00.000Z"),
        ("2026-11-21 06:20", "2026-11-21T05:20:00.000Z"),  # in winter
        ("2026-07-21 06:20", "2026-07-21T04:20:00.000Z"),  # in summer
        ("2026-11-21#06:20:00:500", "2026-11-21T05:20:00.500Z"),
        # Leap days, the last moment before the clocks are set and the first after it.
        ("2028-02-29T12:00Z", "2028-02-29T12:00:00.000Z"),
        ("2028-02-29", "2028-02-28T23:00:00.000Z"),
        ("2026-03-29T01:59:59", "2026-03-29T00:59:59.000Z"),
        ("2026-03-29T03:00:00", "2026-03-29T01:00:00.000Z"),
        ("2026-10-25T01:59:59", "2026-10-24T23:59:59.000Z"),
        ("2026-10-25T03:00:00", "2026-10-25T02:00:00.000Z"),
        # The hour that comes twice, with its zone.
        ("2026-10-25T02:30:00+02:00", "2026-10-25T00:30:00.000Z"),
        ("2026-10-25T02:30:00+01:00", "2026-10-25T01:30:00.000Z"),
    ],
)
@pytest.mark.usefixtures("berlin")
def test_a_time_is_said_again_in_utc(text: str, iso: str) -> None:
    assert _asked(to_time=text).spec.words == f"--to-time {iso}"


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-29T02:30",  # never comes
        "2026-10-25T02:30",  # comes twice
        "2027-02-29T12:00Z",  # no leap year
        "2100-02-29T12:00Z",
        "179523840000",  # 12 digits
        "17952384000000",
        "0",
        "",
        " ",
        "yesterday",
        "1e12",
        "10000-01-01T00:00Z",
        "2026-11-21T25:00Z",
        "2026-11-21T05:20:60Z",
        "\u0662\u0660\u0662\u0666-11-21",
        "\x00",
    ],
)
@pytest.mark.usefixtures("berlin")
def test_what_is_no_time_is_refused(text: str) -> None:
    refusal = _refusal(to_time=text)
    assert refusal.sentence.startswith("--to-time: ")


@pytest.mark.parametrize(
    ("text", "back_ms"),
    [("2h", 7_200_000), ("-2h", 7_200_000), ("PT2H", 7_200_000), ("90s", 90_000), ("1d", 86_400_000)],
)
def test_a_duration_is_counted_back_when_the_brokers_have_told_their_time(text: str, back_ms: int) -> None:
    """A day is 24 hours then, whatever is done to clocks in between."""
    assert _asked(by_duration=text).spec == TargetSpec(TargetKind.TIME, 0, f"--by-duration {text}", ago_ms=back_ms)
    assert _asked(to_time=text).spec == TargetSpec(TargetKind.TIME, 0, f"--to-time {text}", ago_ms=back_ms)


def test_now_is_the_brokers_now() -> None:
    assert _asked(to_time="now").spec == TargetSpec(TargetKind.TIME, 0, "--to-time now", ago_ms=0)


@pytest.mark.parametrize("text", ["2", "90", "1.5", "-2"])
def test_a_number_without_a_unit_is_refused(text: str) -> None:
    number = text.removeprefix("-")
    told = f"has no unit: use {number}h, {number}m or {number}s"
    assert told in _refusal(by_duration=text).sentence


@pytest.mark.parametrize("text", ["", "x", "--2h", "2 weeks", "1000y", "9" * 400, "inf", "nan", "0s", "-0s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert _refusal(by_duration=text).sentence.startswith("--by-duration: ")


def test_further_back_than_1970() -> None:
    with freeze_time("1971-01-01"):
        assert "before 1970" in _refusal(by_duration="2000d").sentence


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("0", 0.0), ("5m", 300.0), ("500ms", 0.5)])
def test_how_long_to_wait(text: str | None, seconds: float | None) -> None:
    assert Consent(wait_stable=text).wait_s == seconds


@pytest.mark.parametrize("text", ["", "x", "-5s"])
def test_a_wait_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="--wait-stable"):
        Consent(wait_stable=text)


# Against messages of which the times are known


@pytest.fixture
def cluster(serve: Serve) -> Cluster:
    """Return 4.9, which answers the nearer message: 100 of them, a second apart from 05:20 on."""
    return serve(message_cluster(store(version=V4_9_7, offsets={"T": {0: 60, 1: 60}})))


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (("--to-time", "1795238420"), 20),
        (("--to-time", "1795238420000"), 20),
        (("--to-time", "1795238420001"), 21),
        (("--to-time", "2026-11-21T05:20:20Z"), 20),
        (("--to-time", "2026-11-21T05:20:20.400Z"), 21),
        (("--to-time", "2026-11-21T05:19:59Z"), 0),
        (("--to-time", "2026-11-21T05:21:39.001Z"), 100),
    ],
)
def test_a_time_leads_to_the_first_message_then_or_later(
    cluster: Cluster, capsys: Captured, words: tuple[str, ...], target: int
) -> None:
    result = call(capsys, "offset", "reset", "G", "--topic", "T", *words, "--dry-run", "-o", "json")
    assert result.code == 0
    plan = json.loads(result.out)
    assert [item["target"] for item in plan["items"]] == [target, target]
    stored_at = [item["firstStoreTimestampIso"] for item in plan["items"]]
    assert stored_at == [None if target == 100 else f"2026-11-21T05:2{target // 60}:{target % 60:02}.000Z"] * 2


def test_by_duration_counts_from_this_machines_now_where_brokers_do_not_tell_theirs(
    cluster: Cluster, capsys: Captured
) -> None:
    with freeze_time("2026-11-21T05:22:00Z", tick=True, real_asyncio=True):
        words = ("offset", "reset", "G", "--topic", "T", "--by-duration", "1m30s", "--dry-run", "-o", "json")
        result = call(capsys, *words)
    assert result.code == 8  # how the clocks differ is unknown
    plan = json.loads(result.out)
    # Some ms have gone by until it was read.
    assert {item["target"] for item in plan["items"]} <= {30, 31, 32}
    assert plan["asked"].startswith("--by-duration 1m30s (since 2026-11-21T05:20:3")
    assert plan["createdAtIso"].startswith("2026-11-21T05:22:0")
    assert plan["timeIso"].startswith("2026-11-21T05:20:3")
    assert [item["text"] for item in plan["consequences"] if item["code"] == "CLOCK_UNKNOWN"] == [
        "broker-a did not report the time: it is counted back from this machine's clock."
    ]


def test_a_time_to_come_is_the_end_and_that_is_said(cluster: Cluster, capsys: Captured) -> None:
    words = ("offset", "reset", "G", "--topic", "T", "--to-time", "2099-01-01T00:00Z", "--dry-run", "-o", "json")
    plan = json.loads(call(capsys, *words).out)
    assert {item["target"] for item in plan["items"]} == {100}
    assert "TIME_AHEAD" in [item["code"] for item in plan["consequences"]]
