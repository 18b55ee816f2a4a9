"""The target of a reset, from the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
from rmqctl.cli.arguments import milliseconds_option
from rmqctl.errors import UsageError
from rmqctl.text.names import one_of
from rmqctl.text.option_errors import option_errors
from rmqctl.text.times import Ago, Edge, iso_time, parse_moment, resolve_ago

if TYPE_CHECKING:
    from rmqctl.changes.offsets.files import OffsetFile
    from rmqctl.changes.offsets.targets import ResetRequest
    from rmqctl.cli.invocation import Invocation
    from rmqctl.client.core import Client

    from .reset_options import ResetOptions

_LONG_MAX = 2**63 - 1


class RequestedTarget(Struct, frozen=True):
    """The requested target, before anything is read: `group` or `path` is the source of given offsets.

    A time relative to now is resolved later, with the clocks of the brokers.
    """

    spec: TargetSpec
    group: str | None = None
    path: str | None = None


def parse_asked(options: ResetOptions) -> RequestedTarget:
    """Return the requested target. Raises UsageError unless there is exactly one, with the topics that it needs."""
    given = {name: getattr(options, name) for name in _ASKED}
    wanted = {name: value for name, value in given.items() if value is not None and value is not False}
    if len(wanted) != 1:
        said = " and ".join(f"--{name.replace('_', '-')}" for name in wanted)
        sentence = f"{said} cannot be used together." if wanted else "No target is given."
        raise UsageError(sentence, hint=one_of(f"--{name.replace('_', '-')}" for name in given))
    ((name, value),) = wanted.items()
    if options.topic and options.all_topics:
        raise UsageError("--topic and --all-topics cannot be used together.")
    if not options.topic and not options.all_topics and name != "from_file":
        raise UsageError("No topics are selected.", hint="Add --topic TOPIC or --all-topics.")
    return _ASKED[name](value)


def _time(text: str) -> RequestedTarget:
    with option_errors("--to-time"):
        moment = parse_moment(text)
        if isinstance(moment, Ago):
            resolve_ago(moment, text, _now_ms())
            return RequestedTarget(TargetSpec(TargetKind.TIME, words=f"--to-time {text.strip()}", ago_ms=moment.ago_ms))
    if isinstance(moment, Edge):
        return _edge(TargetKind.EARLIEST if moment is Edge.EARLIEST else TargetKind.LATEST)
    return RequestedTarget(TargetSpec(TargetKind.TIME, moment, f"--to-time {iso_time(moment)}"))


def _ago(text: str) -> RequestedTarget:
    ago_ms = milliseconds_option("--by-duration", text.removeprefix("-"))
    if ago_ms == 0:
        raise UsageError(f"--by-duration: {text!r} does not go back.", hint="To move to the end, use --to-latest.")
    if ago_ms > _now_ms():
        raise UsageError(f"--by-duration: {text!r} goes back before 1970.")
    return RequestedTarget(TargetSpec(TargetKind.TIME, words=f"--by-duration {text}", ago_ms=ago_ms))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _edge(kind: TargetKind) -> RequestedTarget:
    return RequestedTarget(TargetSpec(kind, words=f"--to-{kind.lower()}"))


def _at(offset: int) -> RequestedTarget:
    if not 0 <= offset <= _LONG_MAX:
        raise UsageError(f"--to-offset {offset} is not a valid offset.", hint="Use an offset from 0 to 2^63-1.")
    return RequestedTarget(TargetSpec(TargetKind.OFFSET, offset, f"--to-offset {offset}"))


def _shift(count: int) -> RequestedTarget:
    if abs(count) > _LONG_MAX:
        raise UsageError(f"--shift-by {count} exceeds the range of offsets.")
    return RequestedTarget(TargetSpec(TargetKind.SHIFT, count, f"--shift-by {count}"))


_ASKED: Mapping[str, Callable[[Any], RequestedTarget]] = {
    "to_time": _time,
    "by_duration": _ago,
    "to_earliest": lambda _: _edge(TargetKind.EARLIEST),
    "to_latest": lambda _: _edge(TargetKind.LATEST),
    "to_offset": _at,
    "shift_by": _shift,
    "to_current": lambda _: _edge(TargetKind.CURRENT),
    "to_group": lambda name: RequestedTarget(TargetSpec(TargetKind.GIVEN, words=f"--to-group {name}"), group=name),
    "from_file": lambda path: RequestedTarget(TargetSpec(TargetKind.GIVEN, words=f"--from-file {path}"), path=path),
}


async def resolve(
    client: Client, invocation: Invocation, asked: RequestedTarget, file: OffsetFile | None, request: ResetRequest
) -> ResetRequest:
    """Return the request with the offsets of another group or a file. Raises what reading them raises."""
    if asked.group is not None:
        from rmqctl.changes.offsets.given_offsets import offsets_of_group

        return (await offsets_of_group(client, invocation.full_name(asked.group), request.topics)).added_to(request)
    if file is not None:
        from rmqctl.changes.offsets.given_offsets import offsets_of_file

        return (await offsets_of_file(client, file, request.topics, request.queues)).added_to(request)
    return request
