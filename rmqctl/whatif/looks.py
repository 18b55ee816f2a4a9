"""Compares the shares that clients really have with what strategies would give them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Options, find_strategy

from .scene import Scene, share_all

# Strategies that need to be told nothing, the likelier first.
_NEARBY = "machine-room-nearby"
_CANDIDATES = ("averagely", "circle", "consistent-hash", _NEARBY)


class Looks(Struct, frozen=True):
    """Whether the real shares are those of the strategy, None where that can't be told.

    It can't where not every client has told its own share, or where none of them subscribes to any of the topics.
    `differing` are clients whose real share is another one; `looks_like` the strategies that give just these shares.
    """

    as_told: bool | None
    differing: tuple[str, ...]
    looks_like: tuple[str, ...]
    is_subscribed: bool = True


def compare_with_real(
    scene: Scene, expected: Mapping[str, list[MessageQueue]] | None, options: Options
) -> Looks | None:
    """Compare what a strategy gives with what members hold; None where no member has told.

    `expected` is None for a strategy that can't be computed. Of topics that a member does not subscribe to it holds
    nothing, whatever its share is.
    """
    live = scene.live
    if live is None or not live.members:
        return None

    def differing(shares: Mapping[str, list[MessageQueue]]) -> list[str]:
        return [
            client_id
            for client_id, member in live.members.items()
            if {mq for mq in member.held if mq.topic in topics}
            != {mq for mq in shares.get(client_id, ()) if member.may_want(mq.topic)}
        ]

    topics = {topic for topic in scene.topics if live.is_wanted(topic)}
    if not topics:  # nothing equals nothing, whatever they share by
        return Looks(None, (), (), is_subscribed=False)
    looks_like: list[str] = []
    plain: Mapping[str, list[MessageQueue]] = {}
    for name in ("pop-share",) if live.is_popping else _CANDIDATES:
        try:
            shares = share_all(scene, find_strategy(name, options))
        except AllocationError:
            continue
        if name == _CANDIDATES[0]:
            plain = shares
        # Without a room that has both brokers and clients it is averagely by another name.
        if not differing(shares) and not (name == _NEARBY and shares == plain):
            looks_like.append(name)
    if expected is None:
        return Looks(None, (), tuple(looks_like))
    others = tuple(differing(expected))
    is_whole = not live.silent and live.members.keys() == set(scene.client_ids)
    return Looks(False if others else True if is_whole else None, others, tuple(looks_like))
