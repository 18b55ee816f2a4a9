from __future__ import annotations

import asyncio

import pytest

from rmqctl.admin.results import all_failed, ask_all
from rmqctl.errors import (
    BrokerError,
    NotAskedError,
    NotAuthorisedError,
    RemoteProtocolError,
    RmqctlError,
    UnreachableError,
)
from rmqctl.model.route import BrokerData
from tests.scripted_peer import run


def test_answers_and_failures_together_hold_every_key_that_was_asked() -> None:
    async def ask(key: int) -> str:
        await asyncio.sleep(0)
        if key % 2:
            raise UnreachableError(f"b{key}:1", "connection refused")
        return f"answer {key}"

    answers = run(ask_all(range(5), ask))
    assert answers.ok == {0: "answer 0", 2: "answer 2", 4: "answer 4"}
    assert {key: str(error) for key, error in answers.failed.items()} == {
        1: "b1:1: connection refused.",
        3: "b3:1: connection refused.",
    }


def test_answers_keep_the_order_of_the_keys_whatever_came_first() -> None:
    async def ask(key: int) -> int:
        for _ in range(10 - key):
            await asyncio.sleep(0)
        return key

    assert list(run(ask_all(range(10), ask)).ok) == list(range(10))


async def test_all_are_asked_at_once() -> None:
    everybody = asyncio.Barrier(20)
    await ask_all(range(20), lambda _: everybody.wait())


def test_nobody_to_ask_is_no_answer_and_no_failure() -> None:
    async def ask(key: int) -> int:
        raise AssertionError

    keys: list[int] = []
    answers = run(ask_all(keys, ask))
    assert (answers.ok, answers.failed) == ({}, {})


def test_an_answer_of_none_is_an_answer() -> None:
    async def ask(key: int) -> None:
        return None

    assert run(ask_all([1], ask)).ok == {1: None}


def test_a_bug_is_no_failure() -> None:
    async def ask(key: int) -> int:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        run(ask_all([1, 2], ask))


def test_when_nobody_answered_a_refusal_weighs_most_then_the_unreachable_then_the_first_of_the_rest() -> None:
    broken, garbled = BrokerError("a:1", 1, "SYSTEM_ERROR", None), RemoteProtocolError("garbled")
    silent, denied = UnreachableError("b:1", "connection refused"), NotAuthorisedError("no")
    cases: list[tuple[list[RmqctlError], RmqctlError]] = [
        ([broken, silent, denied], denied),
        ([broken, silent], silent),
        ([garbled, broken], garbled),
    ]
    for failures, expected in cases:
        assert all_failed(failures) is expected


@pytest.mark.parametrize(
    "key", [BrokerData("C", "broker-b", {0: "b:1"}), (BrokerData("C", "broker-b", {0: "b:1"}), "T")]
)
def test_an_answer_that_can_not_be_read_names_the_broker(key: object) -> None:
    async def ask(_: object) -> None:
        raise RemoteProtocolError("The peer's answer about groups is not what RocketMQ sends.")

    (error,) = run(ask_all([key], ask)).failed.values()
    assert str(error) == "broker-b's answer about groups is not what RocketMQ sends."
    (other,) = run(ask_all(["T"], ask)).failed.values()
    assert str(other).startswith("The peer's answer")


def test_after_the_deadline_no_more_is_asked() -> None:
    asked: list[int] = []

    async def ask(number: int) -> int:
        asked.append(number)
        await asyncio.sleep(0)
        if len(asked) > 1500:
            raise NotAskedError(f"b{number}:1", 8.0)
        return number

    answers = run(ask_all(range(60_000), ask))
    assert answers.ok
    assert {*answers.ok, *answers.failed} == set(range(60_000))
    # Those that had started, and no others.
    assert len(asked) < 10_000
    assert {error.name for error in answers.failed.values()} == {"NOT_ASKED"}
    assert "8 s" in answers.failed[59_999].sentence
