"""What is said of batches: which messages, why, where, what becomes of them; in bounded numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.consumer.batch import Batch
from rmqctl.consumer.counters import Counters
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.reports.consume_reporter import ConsumeReporter
from rmqctl.consumer.reports.failures import ListenerError, describe_error
from rmqctl.consumer.reports.problems import Problem, Problems
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import RemoteProtocolError
from rmqctl.model.consumption import ConsumeResult, ConsumerWarning, ConsumeStatus
from rmqctl.model.group import BROADCASTING
from rmqctl.net.clock import VirtualClock
from tests.consumer.consumer_parts import MQ, message

LATER, SUCCESS = ConsumeStatus.RECONSUME_LATER, ConsumeStatus.CONSUME_SUCCESS


class _Told:
    def __init__(self, **settings: Any) -> None:
        self.said: list[Problem] = []
        clock = VirtualClock()
        problems = Problems(self.said.append, clock)
        self.telling = ConsumeReporter(problems, Counters(clock), ConsumerSettings(group="G", **settings))

    @staticmethod
    def batch(count: int = 1, **facts: Any) -> Batch:
        batch = Batch(ProcessQueue(MQ), [message(7 + each, UNIQ_KEY=f"id{each}") for each in range(count)], 0)
        batch.finished_s = 12.34
        for name, value in facts.items():
            setattr(batch, name, value)
        return batch


@pytest.mark.parametrize(
    ("is_expired", "end"),
    [(False, "late, but its result counts"), (True, "too late for its result to count")],
)
def test_a_listener_that_is_late(is_expired: bool, end: str) -> None:
    told = _Told()
    told.telling.came_late(told.batch(is_expired=is_expired))
    said = f"{MQ}:7 (id id0): the listener returned after 12.3 s, {end} (TIME_OUT)."
    assert [(each.kind, each.sentence) for each in told.said] == [(ConsumerWarning.TIME_OUT, said)]


def test_labels_are_counted() -> None:
    told = _Told()
    told.telling.came_back(ConsumeResult.SUCCESS, 40)
    told.telling.came_back(ConsumeResult.SUCCESS, 2)
    told.telling.came_back(ConsumeResult.TIME_OUT, 1)
    counts = {ConsumeResult.SUCCESS: 42, ConsumeResult.TIME_OUT: 1}
    assert told.telling.results == {result: counts.get(result, 0) for result in ConsumeResult}


@pytest.mark.parametrize(
    ("count", "start"), [(20, "All 20 workers hang in the listener"), (1, "The only worker hangs")]
)
def test_that_all_workers_hang_is_one_sentence(count: int, start: str) -> None:
    told = _Told()
    told.telling.all_hang(count)
    assert told.said[0].sentence.startswith(start)


def test_what_is_given_up_is_named() -> None:
    told = _Told()
    batch = told.batch()
    told.telling.given_up(batch, batch.messages[0], RemoteProtocolError("It lies."))
    (problem,) = told.said
    assert problem.kind is ConsumerWarning.UNREADABLE
    assert problem.sentence.startswith(f"{MQ}:7 (id id0) failed and is given up")
    assert problem.sentence.endswith("sent back: It lies.")


def _raised(text: str) -> BaseException:
    try:
        json.loads(text)
    except ValueError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("facts", "failed_count", "result", "sentence"),
    [
        (
            {"status": None}, 1, ConsumeResult.RETURNNULL,
            "the listener returned None, not a status (RETURNNULL). 1 message goes back to the broker.",
        ),
        (
            {"status": LATER}, 3, ConsumeResult.FAILED,
            "the listener returned RECONSUME_LATER (FAILED). 3 messages go back to the broker.",
        ),
        (
            {"status": LATER, "delay_level": -1}, 1, ConsumeResult.FAILED,
            "the listener returned RECONSUME_LATER (FAILED). 1 message becomes a dead letter (%DLQ%G).",
        ),
        (
            {"status": LATER}, 1, ConsumeResult.TIME_OUT,
            "the listener returned RECONSUME_LATER after 12.3 s (TIME_OUT). 1 message goes back to the broker.",
        ),
        (
            {"status": SUCCESS, "ack_index": 0}, 2, ConsumeResult.SUCCESS,
            "the listener set ack_index to 0 (SUCCESS); 1 of 3 messages are done. 2 messages go back to the broker.",
        ),
        (
            {"error": ListenerError("no stock")}, 1, ConsumeResult.EXCEPTION,
            "no stock (EXCEPTION). 1 message goes back to the broker.",
        ),
        (
            {"error": KeyError("id")}, 1, ConsumeResult.EXCEPTION,
            "the listener raised KeyError: 'id' (EXCEPTION). 1 message goes back to the broker.",
        ),
    ],
    ids=["none", "later", "dead", "late", "partly", "in words", "without a place"],
)  # fmt: skip
def test_a_failure_says_which_why_and_what_becomes_of_it(
    facts: dict[str, Any], failed_count: int, result: ConsumeResult, sentence: str
) -> None:
    told = _Told()
    batch = told.batch(failed_count + (facts.get("ack_index") == 0), **facts)
    failed = batch.messages[-failed_count:]
    told.telling.failed(batch, failed, result)
    more = f" and {failed_count - 1} more" if failed_count > 1 else ""
    start = f"{MQ}:{failed[0].queue_offset} (id {failed[0].message_id}){more}: "
    assert told.said[0].sentence == start + sentence


def test_an_exception_has_its_place_in_the_listener_not_in_a_library() -> None:
    told = _Told()
    error = _raised("{")
    told.telling.failed(told.batch(error=error), told.batch().messages, ConsumeResult.EXCEPTION)
    assert "JSONDecodeError" in told.said[0].sentence
    assert " at test_consume_reporter.py:" in told.said[0].sentence
    assert told.said[0].error is error


def test_keys_retries_and_the_last_one_are_named() -> None:
    told = _Told(max_reconsume_times=2)
    batch = told.batch(status=LATER)
    batch.messages = [message(7, UNIQ_KEY="u", KEYS="order-3", reconsume_times=2)]
    told.telling.failed(batch, batch.messages, ConsumeResult.FAILED)
    assert told.said[0].sentence.startswith(f"{MQ}:7 (id u, keys order-3, retry 2): ")
    assert told.said[0].sentence.endswith("1 message becomes a dead letter (%DLQ%G).")
    told.telling.sent_back(MQ, batch.messages[0], 0)
    told.telling.sent_back(MQ, told.batch().messages[0], 0)
    told.telling.sent_back(MQ, told.batch().messages[0], -1)
    assert (told.telling.sent_back_count, told.telling.dead_count) == (1, 2)


def test_of_a_broadcasting_group_they_are_lost() -> None:
    told = _Told(message_model=BROADCASTING)
    batch = told.batch(status=LATER)
    told.telling.failed(batch, batch.messages, ConsumeResult.FAILED)
    assert told.said[0].sentence.endswith(" The group is broadcasting: 1 message is lost.")


class _Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("x"), "ValueError: x"), (_Mute(), "_Mute: (text not available)"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError("x" * 1000), f"ValueError: {'x' * 500}..."), (SystemExit(3), "SystemExit: 3"),
    ],
    ids=["short", "mute", "empty", "long", "exit"],
)  # fmt: skip
def test_an_error_is_told_whatever_it_is(error: BaseException, words: str) -> None:
    assert describe_error(error) == words
