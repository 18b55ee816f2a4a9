"""`clean-expired --dry-run` of a member that is stuck: how many messages it says are consumed twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import document

from .stuck_member import CLEAN, stuck_member

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Iterator[ThreadedSandbox]:
    with stuck_member(monkeypatch, capsys, brokers=1) as running:
        yield running


@pytest.mark.parametrize(
    ("words", "most", "code"),
    [
        # 4 messages are in flight; the member does not report which of them are in the listener.
        pytest.param((), 4, "RETRIED", id="retried"),
        # The first one is not redelivered.
        pytest.param(("--to-dlq",), 3, "DEAD_LETTERS", id="dead"),
    ],
)
def test_dead_letters_are_not_consumed_twice(
    sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...], most: int, code: str
) -> None:
    plan = document(call(capsys, *CLEAN, *words, "--dry-run", "-o", "json"))
    assert {(item["reconsumedMin"], item["reconsumedMax"]) for item in plan["items"]} == {(0, most)}
    assert code in {each["code"] for each in plan["consequences"]}
