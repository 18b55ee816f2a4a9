"""Whether a group has members, and why something about it is unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from rmqctl.errors import OUT_OF_TIME, NotAuthorisedError, NotRegisteredError, RmqctlError
from rmqctl.model.group import GroupState, Proxies
from rmqctl.model.names import PROXY_GROUP
from rmqctl.model.progress import Unknown
from rmqctl.text.words import listed

_T = TypeVar("_T")


def group_state(unseen: Unknown | None, *, has_members: bool) -> GroupState:
    """Return a group's state; `unseen` is the result of unseen_reason()."""
    if has_members:
        return GroupState.ONLINE
    return GroupState.EMPTY if unseen is None else GroupState.UNKNOWN


def agreed(values: Iterable[_T]) -> _T | None:
    """Return the value that all brokers report, None when they differ or report nothing."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def reason_of(errors: Iterable[RmqctlError]) -> Unknown:
    """Return why brokers reported nothing: they refused, are not registered, or (some of them) did not answer."""
    all_errors = list(errors)
    if all_errors and all(isinstance(error, NotRegisteredError) for error in all_errors):
        return Unknown.BROKER_NOT_REGISTERED
    is_refused = all(isinstance(error, NotAuthorisedError) for error in all_errors)
    return Unknown.NOT_AUTHORISED if is_refused else Unknown.BROKER_UNREACHABLE


_UNSEEN = {
    Proxies.PRESENT: Unknown.BEHIND_PROXY,
    Proxies.UNTOLD: Unknown.BROKER_UNREACHABLE,
    Proxies.REFUSED: Unknown.NOT_AUTHORISED,
}


def unseen_reason(failed: Collection[RmqctlError], proxies: Proxies) -> Unknown | None:
    """Return why a group without visible members may have members after all, None when it cannot."""
    return reason_of(failed) if failed else _UNSEEN.get(proxies)


def why_unseen(reason: Unknown | None) -> str:
    """Return in words why a group may have members although none is visible."""
    if reason is Unknown.NOT_AUTHORISED:
        return f"{reason}: this needs Get on the group and on Group:{PROXY_GROUP}"
    return str(reason)


def unheard(errors: Iterable[tuple[str, RmqctlError | None]], silent: str = "did not answer") -> Iterator[str]:
    """Yield a clause for those who did not answer, for those who had no time to, and for each right asked for.

    `errors` are by name, None for a name without an answer.
    """
    silent_names: set[str] = set()
    unasked: set[str] = set()
    refusing: dict[str, set[str]] = {}
    for name, error in errors:
        if isinstance(error, NotAuthorisedError):
            refusing.setdefault(error.right or "another permission", set()).add(name)
        elif isinstance(error, OUT_OF_TIME):
            unasked.add(name)
        else:
            silent_names.add(name)
    if silent_names:
        yield f"{listed(sorted(silent_names))} {silent}"
    if unasked:
        yield f"the deadline left no time to ask {listed(sorted(unasked))}"
    for right, names in sorted(refusing.items()):
        yield f"{listed(sorted(names))} refused what needs {right}"
