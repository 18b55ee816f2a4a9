"""Values in bodies of responses: each is checked, and one of the wrong type raises RemoteProtocolError.

Errors name the kind of a value, never the value: it may be a tree that grows to gigabytes when it is written out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import isfinite
from typing import Any, TypeVar

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.queue import MessageQueue

_Decoder = TypeVar("_Decoder", bound=Callable[..., Any])

_MAX_QUEUE_COUNT = 1 << 16


def decoder(decode: _Decoder) -> _Decoder:
    """Turn errors of reading values from parsed JSON into RemoteProtocolError."""

    @wraps(decode)
    def guarded(*args: Any) -> Any:
        try:
            return decode(*args)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            what = decode.__name__.removeprefix("decode_").replace("_", " ")
            raise RemoteProtocolError(
                f"The peer's answer about {what} does not have RocketMQ's format: {_wrong(error)}."
            ) from None

    return guarded  # type: ignore[return-value]


def _wrong(error: Exception) -> str:
    """Return in words what is wrong with a value, because Python's own errors describe this program."""
    if isinstance(error, _UnfitError):
        return str(error)
    if isinstance(error, KeyError) and isinstance(error.args[0], str):
        return f"{error.args[0]:.100} is missing"
    return "a value has the wrong format"


class _UnfitError(ValueError):
    """A value that RocketMQ does not send, in words."""


_KINDS = {str: "a text", int: "a number", float: "a number", bool: "a boolean", list: "a list", dict: "a map"}


def _unfit(value: Any, wanted: str) -> _UnfitError:
    kind = "nothing" if value is None else _KINDS.get(type(value), "a map")
    return _UnfitError(f"{kind} in place of {wanted}")


def as_int(value: Any) -> int:
    """Return an integer of 64 bits. The readers here raise an error that a `decoder` turns into a sentence."""
    # bool is an int in Python; a float or a text instead of an offset must not be rounded or guessed.
    if type(value) is not int:
        raise _unfit(value, "an integer")
    if not -(2**63) <= value < 2**63:
        raise _UnfitError("an integer of more than 64 bits")
    return value


def as_int_of_text(text: Any) -> int:
    """Return an integer that is written as a text, as keys of maps are."""
    return as_int(int(as_str(text)))


def as_float(value: Any) -> float:
    """Return a finite number."""
    number = float(as_int(value)) if type(value) is int else value
    if type(number) is not float or not isfinite(number):
        raise _unfit(value, "a finite number")
    return number


def as_bool(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise _unfit(value, "true or false")
    return value


def as_list(value: Any) -> list[Any]:
    """Return a list."""
    # Texts and maps are iterable too, and would yield their letters or their keys.
    if type(value) is not list:
        raise _unfit(value, "a list")
    return value


def as_text(value: Any) -> str:
    """Return a table's value as text: Java writes texts, other clients also numbers."""
    if not isinstance(value, str | int | float):
        raise _unfit(value, "a text")
    return str(value)


def as_time_ms(value: Any) -> int | None:
    """Return a time in ms; RocketMQ writes 0 or -1 for "none"."""
    return as_int(value) if value is not None and as_int(value) > 0 else None


def as_queue(key: Any) -> MessageQueue:
    """Return a queue (MessageQueue)."""
    return MessageQueue(as_str(key["topic"]), as_str(key["brokerName"]), as_int(key["queueId"]))


def as_str(value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise _unfit(value, "a text")
    return value


def as_queue_count(value: Any) -> int:
    """Return a number of queues, limited so that they can be iterated; real topics have tens, BenchmarkTest 1024."""
    if not 0 <= as_int(value) <= _MAX_QUEUE_COUNT:
        raise _UnfitError(f"{value} queues on one broker")
    return as_int(value)


def as_number(value: Any) -> int:
    """Return an integer that C++ clients write as a text; their offsets are unsigned, so -1 is the largest."""
    if not isinstance(value, str):
        return as_int(value)
    return as_int(int(value) - 2**64 if int(value) >= 2**63 else int(value))
