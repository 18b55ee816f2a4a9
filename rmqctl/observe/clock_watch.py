"""Watch members until the times that they report have changed, which bounds their clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from rmqctl.admin.groups.members import RELAYED_AT_ONCE, ask_running_info, ask_through
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.group import RunningInfo
from rmqctl.net.clock import pause
from rmqctl.rules.member_clock import member_clock, written_times

# Bounds this far apart are narrow enough: 5 ms either way.
NARROW_MS = 10
# An idle member pulls every 15 or 20 s: a broker checks pulls that it holds, and answers them, every 5 s
# (PullRequestHoldService). Two changes are needed: the first shows when to ask often for the second.
PROBE_S = 120.0
_TICK_MS = 5_000
_TICK_EARLY_MS, _TICK_LATE_MS = 20, 60
_SELDOM_S, _OFTEN_S = 0.25, 0.001
# A member that is busy pulls again soon.
_OFTEN_COUNT = 20
# Members that are asked often at the same time wait for each other, and all change at the same tick. So few of them are
# asked often at a time, but enough for all to get a turn: a member changes at about _CHANCES ticks within a probe.
_OFTEN_AT_ONCE, _CHANCES = 2, 5


class WatchedMember(Struct, frozen=True):
    """A member, the addresses of the brokers that see it, and its answers so far, at least one."""

    group: str
    client_id: str
    addresses: tuple[str, ...]
    reported: tuple[RunningInfo, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The key that identifies the member: group and client id."""
        return self.group, self.client_id


async def watch_members(
    client: Client, members: list[WatchedMember], *, is_probe: bool
) -> list[tuple[RunningInfo, ...]]:
    """Ask members again, and return the answers of each in order, starting with those it already had.

    Each member is asked once more, and twice if something has changed: then its clock is known to a few ms. With
    `is_probe`, asks until all clocks are known that well, for at most PROBE_S. Members that stop answering are skipped.
    """
    gates = {address: asyncio.Semaphore(RELAYED_AT_ONCE) for member in members for address in member.addresses}
    until_s = client.clock.monotonic_s() + PROBE_S if is_probe else None
    client.deadline.extend(PROBE_S if is_probe else 0.0)
    turns = _Turns(max(_OFTEN_AT_ONCE, len(members) // _CHANCES))

    async def watch(member: WatchedMember) -> tuple[RunningInfo, ...]:
        try:
            return await _watch(client, member, gates, turns, until_s)
        finally:
            turns.taken.discard(member.key)

    return await asyncio.gather(*map(watch, members))


class _Turns:
    """The keys of the members that are asked often now, at most `count` at a time."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.taken: set[tuple[str, str]] = set()

    def delay_s(self, member: WatchedMember, wanted_s: float) -> float:
        """Return the delay before the next request; takes, keeps or releases the member's turn to be asked often."""
        if wanted_s > _OFTEN_S:
            self.taken.discard(member.key)
        elif member.key in self.taken or len(self.taken) < self._count:
            self.taken.add(member.key)
        else:
            return _SELDOM_S
        return wanted_s


async def _watch(
    client: Client, member: WatchedMember, gates: Mapping[str, asyncio.Semaphore], turns: _Turns, until_s: float | None
) -> tuple[RunningInfo, ...]:
    async def ask(address: str) -> RunningInfo:
        async with gates[address]:
            return await ask_running_info(client, address, member.group, member.client_id)

    looks = list(member.reported)
    window: tuple[int, int] | None = None
    alike_count = 0
    while True:
        if len(looks) > 1:
            has_changed = written_times(looks[-1]) != written_times(looks[-2])
            alike_count = 0 if has_changed else alike_count + 1
            if has_changed:
                width_ms = member_clock(looks).width_ms
                if width_ms is not None and width_ms <= NARROW_MS:
                    return tuple(looks)
                window = looks[-2].asked_at_ms or 0, looks[-1].answered_at_ms or 0
            elif alike_count > 1:
                del looks[-2]  # of equal answers, only the first and the last matter
            if until_s is None:
                if not has_changed or len(looks) > 2:
                    return tuple(looks)
            elif client.clock.monotonic_s() >= until_s:
                return tuple(looks)
            elif not has_changed:
                is_soon = window is not None and alike_count < _OFTEN_COUNT
                wanted_s = _OFTEN_S if is_soon else _delay_s(window, client.clock.now_ms())
                await pause(client.clock, turns.delay_s(member, wanted_s))
        try:
            looks.append(await ask_through(member.addresses, ask))
        except RmqctlError:
            return tuple(looks)


def _delay_s(window: tuple[int, int] | None, now_ms: int) -> float:
    """Return the delay before the next request: short when the broker is about to answer the pulls that it holds.

    It did so at some time within the window, and repeats it every 5 s, a few ms later each time.
    """
    if window is None:
        return _SELDOM_S
    first_ms, last_ms = window[0] - _TICK_EARLY_MS, window[1] + _TICK_LATE_MS
    since_ms = (now_ms - first_ms) % _TICK_MS
    if now_ms > last_ms and since_ms <= last_ms - first_ms:
        return _OFTEN_S
    return min(_SELDOM_S, (_TICK_MS - since_ms) / 1000)
