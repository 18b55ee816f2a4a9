"""What a recording shows of the members of a group."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rmqctl.errors import DeadlineError, NotRegisteredError, RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import ClientSample, GroupSample, OwnerSample, QueueSample
from rmqctl.whatif.churn.changes import BrokerStart, BrokerStop, CutBegin, CutEnd, Departure, MemberEnd, MemberStart
from rmqctl.whatif.churn.trace import ChurnStep, ChurnTrace, read_trace

QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(4)]
OLD = MessageQueue("left", "broker-a", 0)
SILENT_BROKER = (Failure("broker-b", "members", RmqctlError("gone")),)


def _sample(
    at_s: int,
    *client_ids: str,
    owners: str = "",
    silent: tuple[str, ...] = (),
    failures: tuple[Failure, ...] = (),
    state: GroupState = GroupState.ONLINE,
) -> GroupSample:
    """Return a sample; `owners` has the letter of each queue's owner, 10 messages arrive per second and queue."""
    queues = {
        mq: QueueSample(mq, 0, at_s * 10, tuple(OwnerSample(each, 0, 0, 0) for each in owners[mq.queue_id :][:1]))
        for mq in QUEUES
    }
    queues[OLD] = QueueSample(OLD, 0, 5)
    return GroupSample(at_s * 1000, at_s, "G", state, client_ids, queues, silent, failures)


def _read(*samples: GroupSample) -> ChurnTrace:
    return read_trace(samples, departure=Departure.STOP)


def test_clients_start_and_end_between_two_samples() -> None:
    trace = _read(_sample(0, "a", "b"), _sample(15, "a", "b"), _sample(30, "a"), _sample(45, "a", "c"))
    assert trace.client_ids == ("a", "b")
    assert trace.for_ms == 45_000
    assert trace.steps == (
        ChurnStep(15_000, MemberEnd(30_000, "b", Departure.STOP)),
        ChurnStep(30_000, MemberStart(45_000, "c")),
    )
    first, again, other = (trace.changes(seed) for seed in (1, 1, 2))
    assert first == again != other
    end, start = first
    assert isinstance(end, MemberEnd)
    assert isinstance(start, MemberStart)
    assert 15_000 <= end.at_ms <= 30_000 <= start.at_ms <= 45_000


def test_a_broker_that_did_not_answer_shows_no_end_and_nothing_when_unknown() -> None:
    trace = _read(
        _sample(0, state=GroupState.UNKNOWN),
        _sample(10, "a", "b"),
        _sample(20, "a", failures=SILENT_BROKER),
        _sample(30, state=GroupState.UNKNOWN),
        _sample(40, "a", "b"),
        _sample(50, "a", "b", "c", failures=SILENT_BROKER),
        _sample(60, "a"),
    )
    # Both b and c were last seen before; c may have started at any time after the last complete sample.
    assert trace.steps == (
        ChurnStep(30_000, MemberStart(40_000, "c")),
        ChurnStep(40_000, MemberEnd(50_000, "b", Departure.STOP)),
        ChurnStep(40_000, MemberEnd(50_000, "c", Departure.STOP)),
    )
    assert (trace.sample_count, trace.partial_count) == (6, 3)
    assert any("3 of 6 samples" in concern for concern in trace.concerns(with_versions=False))


def test_a_client_that_was_silent_for_long_before_brokers_dropped_it_vanished() -> None:
    silent = [_sample(at_s, "a", "b", silent=("b",)) for at_s in range(30, 135, 15)]
    vanished = _read(_sample(0, "a", "b"), _sample(15, "a", "b"), *silent, _sample(135, "a"))
    assert vanished.steps == (ChurnStep(15_000, MemberEnd(30_000, "b", Departure.VANISH)),)
    slow = _read(_sample(0, "a", "b"), silent[0], _sample(45, "a"))
    assert slow.steps == (ChurnStep(30_000, MemberEnd(45_000, "b", Departure.STOP)),)
    back = _read(_sample(0, "a", "b"), *silent, _sample(135, "a", "b"), _sample(150, "a"))
    assert back.steps == (
        ChurnStep(0, CutBegin(30_000, "b", ("broker-a",))),
        ChurnStep(120_000, CutEnd(135_000, "b", ("broker-a",))),
        ChurnStep(135_000, MemberEnd(150_000, "b", Departure.STOP)),
    )


def test_a_client_that_was_silent_and_answers_again_is_cut_off_meanwhile() -> None:
    silent = [_sample(at_s, "a", "b", silent=("b",)) for at_s in (10, 15, 20)]
    trace = _read(_sample(0, "a", "b"), *silent, _sample(25, "a", "b"))
    assert trace.steps == (
        ChurnStep(0, CutBegin(10_000, "b", ("broker-a",))),
        ChurnStep(20_000, CutEnd(25_000, "b", ("broker-a",))),
    )
    begin, end = trace.changes(1)
    assert isinstance(begin, CutBegin)
    assert isinstance(end, CutEnd)
    assert 0 <= begin.at_ms <= 10_000 < 20_000 <= end.at_ms <= 25_000
    assert (begin.client_id, begin.broker_names) == ("b", ("broker-a",))
    assert "0 starts, 0 ends and 1 silence of clients" in trace.words()
    slow = _read(_sample(0, "a", "b"), *silent[1:], _sample(25, "a", "b"))
    assert slow.steps == ()


def test_a_broker_that_does_not_run_stops_and_starts() -> None:
    def failed(error: RmqctlError, broker_name: str = "broker-a") -> tuple[Failure, ...]:
        return (Failure(broker_name, "offsets", error),)

    gone = [_sample(at_s, "a", failures=failed(NotRegisteredError("broker-a", "gone", 0))) for at_s in (10, 20)]
    trace = _read(_sample(0, "a", owners="aaaa"), *gone, _sample(30, "a"))
    assert trace.steps == (
        ChurnStep(0, BrokerStop(10_000, "broker-a")),
        ChurnStep(20_000, BrokerStart(30_000, "broker-a")),
    )
    assert [type(change) for change in trace.changes(1)] == [BrokerStop, BrokerStart]
    assert "1 stop of brokers" in trace.words()
    for error, broker_name in (
        (DeadlineError("broker-a", 3.0), "broker-a"),
        (NotRegisteredError("other", "gone", 0), "other"),
    ):
        other = [_sample(at_s, "a", failures=failed(error, broker_name)) for at_s in (10, 20)]
        assert _read(_sample(0, "a", owners="aaaa"), *other, _sample(30, "a")).steps == ()


def test_members_are_those_of_the_time_at_which_they_were_read() -> None:
    # The recorder was stopped between reading the members and the round.
    late = replace(_sample(60, "a", owners="aaaa"), members_at_ms=21_000)
    trace = _read(_sample(0, "a", "b", owners="aabb"), _sample(20, "a", "b", owners="aabb"), late)
    assert trace.steps == (ChurnStep(20_000, MemberEnd(21_000, "b", Departure.STOP)),)
    assert trace.moves_ms == (21_000, 21_000)
    short = trace.until(20_000)
    assert (short.for_ms, short.steps, short.moves_ms) == (20_000, (), ())


def test_recordings_that_cannot_be_simulated_are_refused() -> None:
    back = replace(_sample(5, "a"), monotonic_s=60.0)
    with pytest.raises(UsageError, match="went back by 10s"):
        _read(_sample(0, "a"), _sample(15, "a"), back)
    broadcasting = _sample(15, "a")
    queues = {
        mq: replace(queue, reasons={"consumerOffset": Unknown.BROADCASTING})
        for mq, queue in broadcasting.queues.items()
    }
    with pytest.raises(UsageError, match="is broadcasting"):
        _read(_sample(0, "a"), replace(broadcasting, queues=queues))


def test_a_gap_is_named_and_samples_without_members_show_no_strategy() -> None:
    trace = _read(_sample(0, "a", owners="aaaa"), _sample(15), _sample(30, owners="aaaa"), _sample(3630, "a"))
    assert (trace.interval_ms, trace.gap_ms, trace.owned_count) == (15_000, 3_600_000, 0)
    assert any("a gap of 1h00m" in concern for concern in trace.concerns(with_versions=False))


def test_queues_rates_moves_and_the_strategy_are_those_of_the_recording() -> None:
    trace = _read(
        _sample(0, "a", "b", owners="abab"), _sample(15, "a", owners="aaaa"), _sample(30, "a", "b", owners="abab")
    )
    assert trace.queues == tuple(QUEUES)
    assert trace.rates == pytest.approx(dict.fromkeys(QUEUES, 10.0))
    assert (trace.strategy, trace.fit_count, trace.owned_count, len(trace.moves_ms)) == ("circle", 3, 3, 4)
    assert list(trace.concerns(with_versions=False)) == []
    half = _read(
        *(
            replace(sample, queues={mq: sample.queues[mq] for mq in QUEUES[: 2 + 2 * (at == 0)]})
            for at, sample in enumerate([_sample(0, "a"), _sample(15, "a"), _sample(30, "a")])
        )
    )
    assert len(half.rates) == 2
    assert any("rate of 2 queues is unknown" in concern for concern in half.concerns(with_versions=False))
    unowned = _read(_sample(0, "a"), _sample(15, "a"))
    assert unowned.queues == (*QUEUES, OLD)
    assert any("averagely is simulated" in concern for concern in unowned.concerns(with_versions=False))


def test_a_strategy_fits_if_clients_that_do_not_count_yet_have_no_queues() -> None:
    trace = _read(*(_sample(at_s, "a", "b", "new", owners="aabb") for at_s in (0, 15, 30)))
    assert (trace.strategy, trace.fit_count, trace.owned_count) == ("averagely", 2, 2)


def test_a_client_is_known_by_what_it_reported_last() -> None:
    java, rmqctl = ClientSample("JAVA", 1, is_orderly=False, consume_rt_ms=5.0), ClientSample("PYTHON", 2)
    trace = _read(
        replace(_sample(0, "a", "b"), clients={"a": java, "b": rmqctl}),
        replace(_sample(15, "a", "b", "c"), clients={"a": replace(java, consume_rt_ms=7.0)}),
        replace(_sample(30, "a", "b", "c"), clients={"a": ClientSample("JAVA", 1)}),
    )
    assert trace.clients == {"a": replace(java, consume_rt_ms=7.0), "b": rmqctl}
    assert any("version of 1 client is unknown" in concern for concern in trace.concerns(with_versions=True))


def test_a_recording_of_nothing_is_refused() -> None:
    unknown = [_sample(at_s, state=GroupState.UNKNOWN) for at_s in (0, 15, 30)]
    for samples in ([], unknown, [_sample(0, "a"), *unknown[1:][:0]]):
        with pytest.raises(UsageError, match="fewer than two samples"):
            read_trace(samples, departure=Departure.STOP)
    with pytest.raises(UsageError, match="no queues"):
        read_trace([_sample(0, "a"), _sample(15, "a")], topics=["other"], departure=Departure.STOP)
    popped = QueueSample(QUEUES[0], 0, 1, is_popped=True)
    pops = [GroupSample(at, at, "G", GroupState.ONLINE, ("a",), {QUEUES[0]: popped}) for at in (0, 9)]
    with pytest.raises(UsageError, match="pops"):
        read_trace(pops, departure=Departure.STOP)
