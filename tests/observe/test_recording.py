from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.errors import UnreachableError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import ClientSample, GroupSample, OwnerSample, QueueSample
from rmqctl.observe.recording import QueueDetail, RecordedSample, read_recording, write_sample

A0, A1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
SAMPLE = GroupSample(
    at_ms=1_795_345_920_123,
    monotonic_s=12.5,
    group="pay",
    state=GroupState.ONLINE,
    client_ids=("10.0.0.7@1", "10.0.0.8@1"),
    queues={
        A0: QueueSample(A0, 20, 100, (OwnerSample("10.0.0.7@1", 23, 3, 23, consumed_at_ms=1_795_345_919_950),)),
        A1: QueueSample(A1, None, None, reasons={"maxOffset": Unknown.BROKER_UNREACHABLE}),
    },
    silent_ids=("10.0.0.8@1",),
    members_at_ms=1_795_345_918_456,
    failures=(Failure("broker-b", "members", UnreachableError("b:10911", "refused")),),
    clients={"10.0.0.7@1": ClientSample("JAVA", 473, False, 1.5), "10.0.0.8@1": ClientSample("GO", 317)},
)
# As another program would write it, by the description alone.
LINE: dict[str, Any] = {
    "apiVersion": "rmqctl/v1",
    "kind": "Sample",
    "cluster": "DefaultCluster",
    "group": "pay",
    "atMs": 1_795_345_920_123,
    "atIso": "2026-11-22T11:12:00.123Z",
    "monotonicS": 12.5,
    "state": "ONLINE",
    "clientIds": ["10.0.0.7@1", "10.0.0.8@1"],
    "silentIds": ["10.0.0.8@1"],
    "membersAtMs": 1_795_345_918_456,
    "clients": [
        {"clientId": "10.0.0.7@1", "language": "JAVA", "version": 473, "isOrderly": False, "consumeRtMs": 1.5},
        {"clientId": "10.0.0.8@1", "language": "GO", "version": 317, "isOrderly": None, "consumeRtMs": None},
    ],
    "queues": [
        {
            "topic": "orders",
            "brokerName": "broker-a",
            "queueId": 0,
            "consumerOffset": 20,
            "maxOffset": 100,
            "minOffset": 7,
            "isNoneStored": False,
            "owners": [
                {
                    "clientId": "10.0.0.7@1",
                    "commitOffset": 23,
                    "cachedMsgCount": 3,
                    "cachedMsgMinOffset": 23,
                    "isDropped": False,
                    "begunAtMs": None,
                    "consumedAtMs": 1_795_345_919_950,
                    "mayForget": False,
                }
            ],
        },
        {
            "topic": "orders",
            "brokerName": "broker-a",
            "queueId": 1,
            "consumerOffset": None,
            "maxOffset": None,
            "reasons": {"maxOffset": "BROKER_UNREACHABLE"},
        },
    ],
    "errors": [{"brokerName": "broker-b", "what": "members", "name": "UNREACHABLE", "message": "b:10911: refused."}],
}


def _plain(sample: GroupSample) -> tuple[GroupSample, list[tuple[str | None, str, str, str]]]:
    """Return a sample without its failures, and those as plain values: errors are equal to themselves only."""
    told = [(each.broker_name, each.what, each.error.name, each.error.sentence) for each in sample.failures]
    bare = {name: getattr(sample, name) for name in GroupSample.__struct_fields__}
    return GroupSample(**{**bare, "failures": ()}), told


def _read(*lines: object) -> list[RecordedSample]:
    data = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    return list(read_recording(data, "watched.jsonl"))


def test_a_line_is_as_it_is_described() -> None:
    detail = QueueDetail(min_offset=7, is_none_stored=False)
    line = write_sample(SAMPLE, cluster="DefaultCluster", details={A0: detail})
    assert json.loads(line) == LINE
    assert list(json.loads(line)) == list(LINE)
    assert "\n" not in line
    (read,) = _read(LINE)
    assert _plain(read.sample) == _plain(SAMPLE)
    assert (read.cluster, read.details) == ("DefaultCluster", {A0: detail})


# Two halves of a surrogate pair side by side are one character in JSON, so only one stands by itself.
_texts = st.text() | st.text(st.characters(categories=("Cc", "Zl"))) | st.characters(categories=("Cs",))
_longs = st.integers(-(2**63), 2**63 - 1)
_unknown = st.none() | _longs
_mqs = st.builds(MessageQueue, _texts, _texts, st.integers(0, 2**31 - 1))
_owners = st.builds(
    OwnerSample, _texts, _unknown, _longs, _longs, st.booleans(), _unknown, _unknown, st.booleans()
)  # fmt: skip
_clients = st.builds(
    ClientSample,
    _texts,
    _longs,
    st.none() | st.booleans(),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
_reasons = st.dictionaries(st.sampled_from(["consumerOffset", "maxOffset", "clientId"]), st.sampled_from(Unknown))


@st.composite
def _samples(draw: st.DrawFn) -> tuple[GroupSample, dict[MessageQueue, QueueDetail]]:
    mqs = draw(st.lists(_mqs, unique=True, max_size=3))
    queues = {
        mq: QueueSample(
            mq, draw(_unknown), draw(_unknown), tuple(draw(st.lists(_owners, max_size=2))), draw(st.booleans()),
            draw(_reasons),
        )
        for mq in mqs
    }  # fmt: skip
    details = {mq: QueueDetail(draw(_longs), draw(_unknown), draw(st.none() | st.booleans())) for mq in mqs[:2]}
    failures = [
        Failure(draw(st.none() | _texts), draw(_texts), UnreachableError(draw(_texts), draw(_texts)))
        for _ in range(draw(st.integers(0, 2)))
    ]
    sample = GroupSample(
        at_ms=draw(st.integers(0, 253_402_300_799_999)),
        monotonic_s=draw(st.floats(allow_nan=False, allow_infinity=False)),
        group=draw(_texts),
        state=draw(st.sampled_from(GroupState)),
        client_ids=tuple(draw(st.lists(_texts, max_size=3))),
        queues=queues,
        silent_ids=tuple(draw(st.lists(_texts, max_size=2))),
        failures=tuple(failures),
        clients=draw(st.dictionaries(_texts, _clients, max_size=2)),
    )
    return sample, details


@given(st.lists(_samples(), max_size=3), st.none() | _texts)
def test_what_is_written_is_read_again(
    written: list[tuple[GroupSample, dict[MessageQueue, QueueDetail]]], cluster: str | None
) -> None:
    lines = [f"{write_sample(sample, cluster=cluster, details=details)}\n".encode() for sample, details in written]
    # As a file gives them: whatever is in a name ends no line.
    read = list(read_recording(b"".join(lines).splitlines(keepends=True), "x"))
    assert [_plain(each.sample) for each in read] == [_plain(sample) for sample, _ in written]
    assert [(each.cluster, each.details) for each in read] == [(cluster, details) for _, details in written]


def test_keys_that_are_newer_are_left_out_and_missing_ones_that_may_are_unknown() -> None:
    queue = {key: LINE["queues"][0][key] for key in ("topic", "brokerName", "queueId", "consumerOffset", "maxOffset")}
    needed = {key: LINE[key] for key in LINE if key not in ("cluster", "silentIds", "membersAtMs", "errors", "atIso")}
    line = {**needed, "queues": [{**queue, "colour": "red"}], "mood": {"good": True}}
    (read,) = _read(line)
    assert read.cluster is None
    assert read.details == {}
    assert read.sample.queues == {A0: QueueSample(A0, 20, 100)}


def test_empty_lines_and_a_byte_order_mark_are_no_matter() -> None:
    text = json.dumps(LINE).encode()
    assert len(_read(b"\xef\xbb\xbf" + text + b"\r\n", b"\n", b"  \r\n", text)) == 2
    assert _read() == []


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (json.dumps(LINE).encode()[:-20], "the line is not complete JSON."),
        (b"\xff\xfe\n", "the line is not complete JSON."),
        (b"[" * 200_000, "the line is not complete JSON."),
        ([1], "the line is not a sample of a group."),
        ({**LINE, "kind": "OffsetList"}, "the line is not a sample of a group."),
        ({**LINE, "apiVersion": "rmqctl/v2"}, "the sample has version 'rmqctl/v2', but this rmqctl reads rmqctl/v1."),
        ({key: LINE[key] for key in LINE if key != "apiVersion"}, "the sample has version None, but"),
        ({**LINE, "atMs": "soon"}, "cannot read the sample: Expected `int`, got `str` - at `$.atMs`."),
        ({**LINE, "atMs": -1}, "cannot read the sample: "),
        ({**LINE, "monotonicS": float("nan")}, "monotonicS is not a finite number."),
        ({**LINE, "state": "SLEEPY"}, "cannot read the sample: Invalid enum value 'SLEEPY' - at `$.state`."),
        ({**LINE, "queues": [{**LINE["queues"][0], "queueId": 2**31}]}, "cannot read the sample: "),
        ({**LINE, "queues": [{**LINE["queues"][0], "maxOffset": 2**63}]}, "cannot read the sample: "),
        ({**LINE, "queues": [LINE["queues"][0]] * 2}, "the sample contains a queue twice."),
        ({key: LINE[key] for key in LINE if key != "queues"}, "cannot read the sample: "),
    ],
)
def test_a_broken_line_is_named(line: object, sentence: str) -> None:
    found = read_recording(
        [json.dumps(LINE).encode(), b"\n", line if isinstance(line, bytes) else json.dumps(line).encode()], "w.jsonl"
    )
    assert next(found).sample.group == "pay"
    with pytest.raises(UsageError) as caught:
        next(found)
    assert caught.value.sentence.startswith(f"w.jsonl, line 3: {sentence}")
    assert caught.value.hint is not None
