"""What the app and the screens of rmqctl top share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from rmqctl.cli.output.display import Display
from rmqctl.net.clock import Clock
from rmqctl.observe.fleet_activity import GroupKey
from rmqctl.watch.rounds import WatchRound


class TopState(Struct, kw_only=True):
    """The round that is shown, and where the rest comes from.

    `place` names the cluster, `wanted` the groups, none for all. `history` returns a group's rates from round to round,
    up to a time in ms. `focus_on` is called with the group that is open, `corner` returns the text of the upper right
    corner. `clock` is that of the rounds.
    """

    found: WatchRound
    options: Display
    place: str
    wanted: Sequence[str]
    history: Callable[[GroupKey, int], list[float | None]]
    focus_on: Callable[[GroupKey | None], None]
    corner: Callable[[], str]
    clock: Clock
    is_paused: bool = False
