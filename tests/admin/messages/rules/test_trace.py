from __future__ import annotations

from rmqctl.admin.messages.rules.trace import trace_steps
from rmqctl.model.trace import DeliveryEnd, DeliveryStart, TraceEvent, TraceStep

HOST = "192.0.2.1:50000"


def _start(request_id: str = "R1", msg_id: str = "M", at_ms: int = 100, retry_times: int = 0) -> DeliveryStart:
    return DeliveryStart(at_ms, "G", request_id, msg_id, retry_times, None, HOST)


def _end(
    request_id: str = "R1", msg_id: str = "M", cost_ms: int = 7, *, at_ms: int | None = 107, group: str | None = "G"
) -> DeliveryEnd:
    return DeliveryEnd(request_id, msg_id, cost_ms, True, None, "SUCCESS", at_ms, group, HOST)


def _sent(at_ms: int = 90) -> TraceStep:
    return TraceStep(event=TraceEvent.PUBLISHED, msg_id="M", group="P", at_ms=at_ms, client_host=HOST)


def test_a_beginning_and_its_end_are_one_delivery_whatever_came_first() -> None:
    sent, delivered = trace_steps([_end(), _start(retry_times=2), _sent()])
    assert (sent.event, delivered.event) == (TraceEvent.PUBLISHED, TraceEvent.DELIVERED)
    assert (delivered.at_ms, delivered.cost_ms, delivered.result, delivered.retry_times) == (100, 7, "SUCCESS", 2)


def test_messages_of_one_call_are_told_apart() -> None:
    steps = trace_steps([_start(msg_id="A"), _start(msg_id="B"), _end(msg_id="B", cost_ms=9)])
    assert [(step.msg_id, step.cost_ms) for step in steps] == [("A", None), ("B", 9)]


def test_a_beginning_alone_has_no_result() -> None:
    (step,) = trace_steps([_start()])
    assert (step.result, step.cost_ms, step.at_ms) == (None, None, 100)


def test_an_end_alone_tells_when_it_began_but_not_which_try_it_was() -> None:
    (step,) = trace_steps([_end()])
    assert (step.at_ms, step.group, step.retry_times, step.result) == (100, "G", None, "SUCCESS")
    (step,) = trace_steps([_end(at_ms=None, group=None)])
    assert (step.at_ms, step.group) == (None, None)


def test_what_was_written_twice_counts_once() -> None:
    assert len(trace_steps([_sent(), _start(), _end(), _sent(), _start(), _end()])) == 2


def test_events_stand_in_the_order_of_time() -> None:
    steps = trace_steps([_start("R2", at_ms=300), _start("R1", at_ms=200), _sent(100)])
    assert [step.at_ms for step in steps] == [100, 200, 300]
