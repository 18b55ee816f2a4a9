from __future__ import annotations

import pytest

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.command import Command
from rmqctl.protocol.headers import int_field
from tests.protocol.golden import answer, answers


def test_recorded_numbers() -> None:
    assert [int_field(answer(exchange), "offset") for exchange in answers(14)] == [0, 0, 0, 102, 100, 100]
    assert [int_field(answer(exchange), "nextBeginOffset") for exchange in answers(11)] == [1, 2, 32, 4, 2, 1]


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63)])
def test_a_long(number: int) -> None:
    assert int_field(Command(0, {"offset": str(number)}), "offset") == number


@pytest.mark.parametrize("text", ["", "x", "1.0", "0x1", "1e3", str(2**63), str(-(2**63) - 1), "9" * 5000, "null"])
def test_what_is_no_long(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="no number in the field offset"):
        int_field(Command(0, {"offset": text}), "offset")


def test_a_missing_field() -> None:
    with pytest.raises(RemoteProtocolError, match="no number in the field maxOffset"):
        int_field(Command(0, {"offset": "1"}), "maxOffset")
