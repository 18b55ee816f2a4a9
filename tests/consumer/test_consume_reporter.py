"""What is said of batches: in bounded numbers, whatever a listener raised."""

from __future__ import annotations

import pytest

from rmqctl.consumer.batch import Batch
from rmqctl.consumer.consume_reporter import ConsumeReporter, describe_error
from rmqctl.consumer.counters import Counters
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.errors import RemoteProtocolError
from rmqctl.model.consumption import ConsumeResult, ConsumerWarning
from rmqctl.model.group import BROADCASTING, CLUSTERING
from rmqctl.net.clock import VirtualClock
from tests.consumer.consumer_parts import MQ, message


class _Told:
    def __init__(self, model: str = CLUSTERING) -> None:
        self.said: list[tuple[ConsumerWarning, str]] = []
        clock = VirtualClock()
        self.telling = ConsumeReporter(lambda *said: self.said.append(said), Counters(clock), model)

    @staticmethod
    def batch(*, is_expired: bool = False, error: BaseException | None = None) -> Batch:
        batch = Batch(ProcessQueue(MQ), [message(7)], 0)
        batch.finished_s, batch.is_expired, batch.error = 12.34, is_expired, error
        return batch


@pytest.mark.parametrize(
    ("is_expired", "end"),
    [(False, "late, but its result counts"), (True, "too late for its result to count")],
)
def test_a_listener_that_is_late(is_expired: bool, end: str) -> None:
    told = _Told()
    told.telling.came_late(told.batch(is_expired=is_expired))
    said = f"{MQ}:7: the listener returned after 12.3 s, {end} (TIME_OUT)."
    assert told.said == [(ConsumerWarning.TIME_OUT, said)]


def test_late_ones_are_told_of_less_and_less() -> None:
    told = _Told()
    for _ in range(12_345):
        told.telling.came_late(told.batch())
    assert len(told.said) == 10 + 3
    assert told.said[-1][1].endswith(" 10000 batches have been late so far.")


def test_labels_are_counted() -> None:
    told = _Told()
    told.telling.came_back(ConsumeResult.SUCCESS, 40)
    told.telling.came_back(ConsumeResult.SUCCESS, 2)
    told.telling.came_back(ConsumeResult.TIME_OUT, 1)
    counts = {ConsumeResult.SUCCESS: 42, ConsumeResult.TIME_OUT: 1}
    assert told.telling.results == {result: counts.get(result, 0) for result in ConsumeResult}


def test_that_all_workers_hang_is_one_sentence() -> None:
    told = _Told()
    told.telling.all_hang(20)
    told.telling.one_is_free()
    told.telling.all_hang(1)
    said = [sentence for _, sentence in told.said]
    assert said[0].startswith("All 20 workers hang in the listener")
    assert said[1].startswith("A worker returned")
    assert said[2].startswith("The only worker hangs in the listener")


def test_what_is_given_up_is_named() -> None:
    told = _Told()
    batch = told.batch()
    told.telling.given_up(batch, batch.messages[0], RemoteProtocolError("It lies."))
    ((kind, said),) = told.said
    assert (kind, said.startswith(f"{MQ}:7 failed and is given up")) == (ConsumerWarning.UNREADABLE, True)
    assert said.endswith("sent back: It lies.")


class _Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("x"), "ValueError: x"), (_Mute(), "_Mute: (text not available)"),
        (ValueError("x" * 1000), f"ValueError: {'x' * 500}..."), (SystemExit(3), "SystemExit: 3"),
    ],
    ids=["short", "mute", "long", "exit"],
)  # fmt: skip
def test_an_error_is_told_whatever_it_is(error: BaseException, words: str) -> None:
    assert describe_error(error) == words
    told = _Told(BROADCASTING)
    told.telling.failed(told.batch(error=error), ConsumeResult.EXCEPTION)
    ((kind, said),) = told.said
    assert (kind, said.startswith(f"{MQ}:7: the listener failed (EXCEPTION): {words}. ")) == (
        ConsumerWarning.LISTENER,
        True,
    )
    assert said.endswith("broadcasting: the messages are lost.")
