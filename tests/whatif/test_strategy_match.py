from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Options, find_strategy, strategy_words
from rmqctl.whatif.group_snapshot import GroupSnapshot, LiveGroup, SnapshotMember, share_all
from rmqctl.whatif.strategy_match import StrategyMatch, compare_with_real
from tests.whatif.groups import AS_AVERAGELY, AS_CIRCLE, T


def _member(held: Sequence[MessageQueue], topics: Sequence[str] | None = ("T",)) -> SnapshotMember:
    return SnapshotMember(frozenset(held), "averagely", None if topics is None else frozenset(topics), False)


def _snapshot(
    shares: Mapping[str, Sequence[MessageQueue]], silent: Sequence[str] = (), queues: Sequence[MessageQueue] = T,
    topics: Sequence[str] | None = ("T",),
) -> GroupSnapshot:  # fmt: skip
    members = {client_id: _member(held, topics) for client_id, held in shares.items()}
    live = LiveGroup("G", members, tuple(silent), {}, {}, None, None, None, None, {})
    return GroupSnapshot(tuple(queues), tuple(sorted([*members, *silent])), live)


def _match(
    snapshot: GroupSnapshot, strategy: str = "averagely", options: Options | None = None
) -> StrategyMatch | None:
    options = options or Options()
    return compare_with_real(snapshot, share_all(snapshot, find_strategy(strategy, options)), options)


def test_shares_that_are_just_those_of_the_strategy() -> None:
    assert _match(_snapshot(AS_AVERAGELY)) == StrategyMatch(True, (), ("averagely",))
    assert _match(_snapshot(AS_CIRCLE), "circle") == StrategyMatch(True, (), ("circle",))


def test_shares_that_are_another_strategys_name_it_and_who_differs() -> None:
    assert _match(_snapshot(AS_CIRCLE)) == StrategyMatch(False, ("c1", "c2", "c3"), ("circle",))


def test_shares_that_are_no_strategys() -> None:
    shares = {**AS_AVERAGELY, "c1": T[:2]}
    assert _match(_snapshot(shares)) == StrategyMatch(False, ("c1",), ())


def test_few_queues_look_like_several_strategies() -> None:
    match = _match(_snapshot({"c1": T[:1], "c2": T[1:2]}, queues=T[:2]))
    assert match is not None
    assert match.as_computed is True
    assert {"averagely", "circle"} <= set(match.matching)


def test_while_one_is_silent_agreement_is_not_known_and_difference_is() -> None:
    two = {client_id: AS_AVERAGELY[client_id] for client_id in ("c1", "c2")}
    match = _match(_snapshot(two, ["c3"]))
    assert match == StrategyMatch(None, (), ("averagely",))
    assert _match(_snapshot({**two, "c1": []}, ["c3"])) == StrategyMatch(False, ("c1",), ())


def test_nobody_who_told_is_nothing_to_compare() -> None:
    assert _match(_snapshot({}, ["c1"])) is None
    assert _match(GroupSnapshot(tuple(T), ("c1",))) is None


def test_of_topics_that_a_client_does_not_want_it_holds_nothing() -> None:
    u = [MessageQueue("U", "broker-a", queue_id) for queue_id in range(2)]
    snapshot = _snapshot({"c1": [*T[:4]], "c2": T[4:]}, queues=[*T, *u])
    assert _match(snapshot) == StrategyMatch(True, (), ("averagely",))
    # Who does not say what it wants is taken to want all.
    match = _match(_snapshot({"c1": [*T[:4]], "c2": T[4:]}, queues=[*T, *u], topics=None))
    assert match == StrategyMatch(False, ("c1", "c2"), ())


def test_queues_of_topics_that_are_not_asked_about_do_not_count() -> None:
    other = MessageQueue("U", "broker-a", 0)
    assert _match(_snapshot({**AS_AVERAGELY, "c1": [*T[:3], other]})) == StrategyMatch(True, (), ("averagely",))


def test_a_strategy_that_can_not_be_computed_leaves_it_open() -> None:
    match = compare_with_real(_snapshot(AS_CIRCLE), None, Options())
    assert match == StrategyMatch(None, (), ("circle",))


@pytest.mark.parametrize("strategy", ["averagely", "circle", "consistent-hash"])
def test_what_a_strategy_gives_looks_like_it(strategy: str) -> None:
    assert strategy in strategy_words()
    snapshot = GroupSnapshot(tuple(T), ("c1", "c2", "c3"))
    shares = share_all(snapshot, find_strategy(strategy))
    match = _match(_snapshot(shares), strategy)
    assert match is not None
    assert match.as_computed is True
    assert strategy in match.matching


def test_machine_room_nearby_is_named_only_where_rooms_decide() -> None:
    queues = [MessageQueue("T", f"east-{name}", queue_id) for name in "ab" for queue_id in range(2)]
    queues += [MessageQueue("T", "west-c", queue_id) for queue_id in range(4)]
    ids = ("east-1", "west-1", "west-2")
    shares = share_all(GroupSnapshot(tuple(queues), ids), find_strategy("machine-room-nearby"))
    match = _match(_snapshot(shares, queues=queues), "machine-room-nearby")
    assert match == StrategyMatch(True, (), ("machine-room-nearby",))
