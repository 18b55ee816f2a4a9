"""Parses the words of `rmqctl sandbox fault` into a request to the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox.control.messages import (
    Ask,
    ChangeBroker,
    ClearFaults,
    CutClient,
    EffectName,
    HealClient,
    ListFaults,
    PlanFault,
)
from rmqctl.text.durations import parse_duration_ms
from rmqctl.text.names import hint_for

_ANY = "any"


class FaultOptions(Struct, frozen=True):
    """The options of the command; None or false if not given."""

    count: int | None = None
    forever: bool = False
    broker: str | None = None
    remark: str | None = None
    lose_unflushed: bool = False


class _Action(Struct, frozen=True):
    usage: str
    read: Callable[[Sequence[str], FaultOptions], Ask]
    options: tuple[str, ...] = ()


def parse_fault(words: Sequence[str], options: FaultOptions) -> Ask:
    """Return the request. Raises UsageError, also for options that the action does not accept."""
    name, *rest = words or ["list"]
    action = ACTIONS.get(name.lower())
    if action is None:
        hint = hint_for(name, ACTIONS)
        raise UsageError(f"Unknown fault {name!r}.", hint=hint)
    for option, default in zip(FaultOptions.__struct_fields__, FaultOptions.__struct_defaults__, strict=True):
        if getattr(options, option) != default and option not in action.options:
            raise UsageError(
                f"{name} does not accept --{option.replace('_', '-')}.",
                hint=f"Write: rmqctl sandbox fault {action.usage}",
            )
    try:
        return action.read(rest, options)
    except _WordsError:
        raise UsageError(f"Invalid words after {name}.", hint=f"Write: rmqctl sandbox fault {action.usage}") from None


class _WordsError(Exception):
    """Too few words, too many, or invalid ones."""


def _answer(words: Sequence[str], options: FaultOptions) -> Ask:
    if len(words) == 3 and words[1].lower() == "with":
        words = (words[0], words[2])
    if len(words) != 2:
        raise _WordsError
    code = _code(words[1], ResponseCode, "response")
    return _plan("answer", words[0], options, with_code=code)


def _effect(effect: EffectName) -> Callable[[Sequence[str], FaultOptions], Ask]:
    def read(words: Sequence[str], options: FaultOptions) -> Ask:
        if len(words) > 1:
            raise _WordsError
        return _plan(effect, words[0] if words else _ANY, options)

    return read


def _delay(words: Sequence[str], options: FaultOptions) -> Ask:
    if not 1 <= len(words) <= 2:
        raise _WordsError
    return _plan("delay", words[1] if len(words) == 2 else _ANY, options, delay_ms=_duration_ms(words[0]))


def _plan(
    effect: EffectName, request: str, options: FaultOptions, *, with_code: int | None = None, delay_ms: int = 0
) -> PlanFault:
    if options.forever and options.count is not None:
        raise UsageError("--count and --forever cannot be used together.")
    count = None if options.forever else 1 if options.count is None else options.count
    if count is not None and count < 1:
        raise UsageError("--count must be 1 or more.")
    code = None if request.lower() == _ANY else _code(request, RequestCode, "request")
    return PlanFault(
        effect, code=code, server=options.broker, count=count, with_code=with_code, remark=options.remark,
        delay_ms=delay_ms,
    )  # fmt: skip


def _skew(words: Sequence[str], options: FaultOptions) -> Ask:
    if not 1 <= len(words) <= 2 or (len(words) == 2 and words[1].lower() not in ("ahead", "behind")):
        raise _WordsError
    skew_ms = _duration_ms(words[0])
    return ChangeBroker("skew", options.broker, skew_ms=-skew_ms if words[-1].lower() == "behind" else skew_ms)


def _broker(change: str) -> Callable[[Sequence[str], FaultOptions], Ask]:
    def read(words: Sequence[str], options: FaultOptions) -> Ask:
        if words:
            raise _WordsError
        return ChangeBroker(change, options.broker, lose_unflushed=options.lose_unflushed)  # type: ignore[arg-type]

    return read


def _partition(words: Sequence[str], options: FaultOptions) -> Ask:
    if len(words) != 1 or not words[0]:
        raise _WordsError
    return CutClient(words[0], options.broker)


def _heal(words: Sequence[str], _: FaultOptions) -> Ask:
    if len(words) > 1:
        raise _WordsError
    return HealClient(words[0] if words else None)


def _alone(question: Ask) -> Callable[[Sequence[str], FaultOptions], Ask]:
    def read(words: Sequence[str], _: FaultOptions) -> Ask:
        if words:
            raise _WordsError
        return question

    return read


def _code(text: str, codes: type[IntEnum], kind: str) -> int:
    """Return a code from its number or RocketMQ's name; a number may be unknown."""
    if text.isascii() and text.isdigit() and int(text) < 2**31:
        return int(text)
    wanted = text.upper()
    if wanted in codes.__members__:
        return codes[wanted].value
    hint = hint_for(wanted, codes.__members__, otherwise="Look up codes with rmqctl explain.")
    raise UsageError(f"Unknown {kind} code {text!r}.", hint=hint)


def _duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text.removeprefix("+"))
    except ValueError as error:
        raise UsageError(f"{error}.") from None


_COUNTED = ("count", "forever", "broker")
ACTIONS: dict[str, _Action] = {
    "answer": _Action("answer REQUEST with CODE [--remark TEXT]", _answer, (*_COUNTED, "remark")),
    "drop": _Action("drop [REQUEST]", _effect("drop"), _COUNTED),
    "silence": _Action("silence [REQUEST]", _effect("silence"), _COUNTED),
    "delay": _Action("delay TIME [REQUEST]", _delay, _COUNTED),
    "corrupt": _Action("corrupt [REQUEST]", _effect("corrupt"), _COUNTED),
    "refuse-writes": _Action("refuse-writes [--broker NAME]", _broker("refuse-writes"), ("broker",)),
    "allow-writes": _Action("allow-writes [--broker NAME]", _broker("allow-writes"), ("broker",)),
    "skew": _Action("skew TIME ahead|behind [--broker NAME]", _skew, ("broker",)),
    "partition": _Action("partition CLIENT_ID [--broker NAME]", _partition, ("broker",)),
    "heal": _Action("heal [CLIENT_ID]", _heal),
    "restart": _Action(
        "restart [--broker NAME] [--lose-unflushed]", _broker("restart"), ("broker", "lose_unflushed")
    ),
    "stop": _Action("stop [--broker NAME]", _broker("stop"), ("broker",)),
    "start": _Action("start [--broker NAME]", _broker("start"), ("broker",)),
    "list": _Action("list", _alone(ListFaults())),
    "clear": _Action("clear", _alone(ClearFaults())),
}  # fmt: skip
