from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.repeat import Repetition
from rmqctl.errors import RmqctlError, UnreachableError, UsageError
from rmqctl.model.failure import Failure


def _listing(value: str, *failures: Failure) -> Listing:
    return Listing(kind="Test", columns=(Column("NAME", "name"),), items=[{"name": value}], name=str, failures=failures)


_PART = Failure("broker-b", "offsets", UnreachableError("127.0.0.1:1", "no answer"))
_STOP = KeyboardInterrupt()


def _reading(*rounds: Listing | BaseException) -> Callable[[], Listing]:
    made: Iterator[Listing | BaseException] = iter(rounds)

    def read() -> Listing:
        found = next(made)
        if isinstance(found, BaseException):
            raise found
        return found

    return read


def _show(read: Callable[[], Listing], made: str = "plain", **given: Any) -> int:
    invocation: Any = SimpleNamespace(display=Display(format=made))
    return Repetition(**{"watch": True, "every": "1ms", **given}).show(invocation, read)


@pytest.mark.parametrize(
    ("rounds", "code"),
    [
        ((_listing("a"), _listing("b"), _STOP), 0),
        ((_listing("a", _PART), _listing("b"), _STOP), 0),
        ((_listing("a"), _listing("b", _PART), _STOP), 8),
        ((_listing("a"), RmqctlError("It failed."), _STOP), RmqctlError.exit_code),
        ((RmqctlError("It failed."), _listing("a"), _STOP), 0),
    ],
)
def test_the_exit_code_is_that_of_the_last_round(
    rounds: tuple[Listing | BaseException, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _show(_reading(*rounds)) == code
    shown = capsys.readouterr()
    assert ("It failed." in shown.err) == any(isinstance(each, RmqctlError) for each in rounds)
    assert shown.out.count("NAME") == sum(isinstance(each, Listing) for each in rounds)


def test_an_interrupt_before_the_first_result_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        _show(_reading(_STOP))


def test_a_wrong_command_line_ends_it_at_once() -> None:
    with pytest.raises(UsageError):
        _show(_reading(UsageError("Unknown key.")))


def test_csv_has_one_title_row(capsys: pytest.CaptureFixture[str]) -> None:
    _show(_reading(_listing("a"), _listing("b"), _STOP), "csv")
    assert capsys.readouterr().out == "name\na\nb\n"


@pytest.mark.parametrize(("made", "given"), [("json", {}), ("plain", {"watch": False}), ("plain", {"every": "0s"})])
def test_what_cannot_be_repeated_is_refused(made: str, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        _show(_reading(), made, **given)


def test_without_it_there_is_one_round(capsys: pytest.CaptureFixture[str]) -> None:
    assert _show(_reading(_listing("a")), watch=False, every=None) == 0
    assert capsys.readouterr().out == "NAME\na\n"
