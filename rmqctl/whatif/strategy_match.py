"""Compare the shares that clients really have with those that strategies would give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Options, find_strategy

from .group_snapshot import GroupSnapshot, SnapshotMember, share_all

# Strategies that need no options, the likelier first.
_NEARBY = "machine-room-nearby"
_CANDIDATES = ("averagely", "circle", "consistent-hash", _NEARBY)


class StrategyMatch(Struct, frozen=True):
    """Whether the real shares are those of the strategy, None when that is unknown.

    It is unknown unless every client has reported its share, and some client subscribes to one of the topics.
    `differing` are clients with another real share; `matching` are the strategies that give exactly the real shares.
    """

    as_computed: bool | None
    differing: tuple[str, ...]
    matching: tuple[str, ...]
    is_subscribed: bool = True


def compare_with_real(
    snapshot: GroupSnapshot, expected: Mapping[str, list[MessageQueue]] | None, options: Options
) -> StrategyMatch | None:
    """Compare a strategy's shares with the queues that members hold; None when no member has reported.

    A strategy that cannot be computed has None as `expected`. A member holds no queues of topics that it does not
    subscribe to, whatever its share is.
    """
    live = snapshot.live
    if live is None or not live.members:
        return None

    is_popping = live.is_popping
    compared = {client_id: member for client_id, member in live.members.items() if member.pulls or is_popping}

    def differs(member: SnapshotMember, share: Sequence[MessageQueue]) -> bool:
        held, may_hold = (member.held, member.may_want) if is_popping else (member.pulled, member.may_pull)
        return {mq for mq in held if mq.topic in topics} != {mq for mq in share if may_hold(mq.topic)}

    def differing(shares: Mapping[str, list[MessageQueue]]) -> list[str]:
        return [client_id for client_id, member in compared.items() if differs(member, shares.get(client_id, ()))]

    topics = {topic for topic in snapshot.topics if live.is_wanted(topic)}
    if not topics:  # without queues, any strategy would match
        return StrategyMatch(None, (), (), is_subscribed=False)
    matching: list[str] = []
    plain: Mapping[str, list[MessageQueue]] = {}
    for name in ("pop-share",) if is_popping else _CANDIDATES:
        try:
            shares = share_all(snapshot, find_strategy(name, options))
        except AllocationError:
            continue
        if name == _CANDIDATES[0]:
            plain = shares
        # Without a room that has both brokers and clients it equals averagely.
        if not differing(shares) and not (name == _NEARBY and shares == plain):
            matching.append(name)
    if expected is None:
        return StrategyMatch(None, (), tuple(matching))
    others = tuple(differing(expected))
    is_whole = not live.silent and compared.keys() == set(snapshot.client_ids)
    return StrategyMatch(False if others else True if is_whole else None, others, tuple(matching))
