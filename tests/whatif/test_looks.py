from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Options, find_strategy, strategy_words
from rmqctl.whatif.looks import Looks, compare_with_real
from rmqctl.whatif.scene import LiveGroup, Member, Scene, share_all

from .groups import AS_AVERAGELY, AS_CIRCLE, T


def _member(held: Sequence[MessageQueue], topics: Sequence[str] | None = ("T",)) -> Member:
    return Member(frozenset(held), "averagely", None if topics is None else frozenset(topics), False)


def _scene(
    shares: Mapping[str, Sequence[MessageQueue]], silent: Sequence[str] = (), queues: Sequence[MessageQueue] = T,
    topics: Sequence[str] | None = ("T",),
) -> Scene:  # fmt: skip
    members = {client_id: _member(held, topics) for client_id, held in shares.items()}
    live = LiveGroup("G", members, tuple(silent), {}, {}, None, None, None, None, {})
    return Scene(tuple(queues), tuple(sorted([*members, *silent])), live)


def _looks(scene: Scene, strategy: str = "averagely", options: Options | None = None) -> Looks | None:
    options = options or Options()
    return compare_with_real(scene, share_all(scene, find_strategy(strategy, options)), options)


def test_shares_that_are_just_those_of_the_strategy() -> None:
    assert _looks(_scene(AS_AVERAGELY)) == Looks(True, (), ("averagely",))
    assert _looks(_scene(AS_CIRCLE), "circle") == Looks(True, (), ("circle",))


def test_shares_that_are_another_strategys_name_it_and_who_differs() -> None:
    assert _looks(_scene(AS_CIRCLE)) == Looks(False, ("c1", "c2", "c3"), ("circle",))


def test_shares_that_are_no_strategys() -> None:
    shares = {**AS_AVERAGELY, "c1": T[:2]}
    assert _looks(_scene(shares)) == Looks(False, ("c1",), ())


def test_few_queues_look_like_several_strategies() -> None:
    looks = _looks(_scene({"c1": T[:1], "c2": T[1:2]}, queues=T[:2]))
    assert looks is not None
    assert looks.as_told is True
    assert {"averagely", "circle"} <= set(looks.looks_like)


def test_while_one_is_silent_agreement_is_not_known_and_difference_is() -> None:
    two = {client_id: AS_AVERAGELY[client_id] for client_id in ("c1", "c2")}
    looks = _looks(_scene(two, ["c3"]))
    assert looks == Looks(None, (), ("averagely",))
    assert _looks(_scene({**two, "c1": []}, ["c3"])) == Looks(False, ("c1",), ())


def test_nobody_who_told_is_nothing_to_compare() -> None:
    assert _looks(_scene({}, ["c1"])) is None
    assert _looks(Scene(tuple(T), ("c1",))) is None


def test_of_topics_that_a_client_does_not_want_it_holds_nothing() -> None:
    u = [MessageQueue("U", "broker-a", queue_id) for queue_id in range(2)]
    scene = _scene({"c1": [*T[:4]], "c2": T[4:]}, queues=[*T, *u])
    assert _looks(scene) == Looks(True, (), ("averagely",))
    # Who does not say what it wants is taken to want all.
    looks = _looks(_scene({"c1": [*T[:4]], "c2": T[4:]}, queues=[*T, *u], topics=None))
    assert looks == Looks(False, ("c1", "c2"), ())


def test_queues_of_topics_that_are_not_asked_about_do_not_count() -> None:
    other = MessageQueue("U", "broker-a", 0)
    assert _looks(_scene({**AS_AVERAGELY, "c1": [*T[:3], other]})) == Looks(True, (), ("averagely",))


def test_a_strategy_that_can_not_be_computed_leaves_it_open() -> None:
    looks = compare_with_real(_scene(AS_CIRCLE), None, Options())
    assert looks == Looks(None, (), ("circle",))


@pytest.mark.parametrize("strategy", ["averagely", "circle", "consistent-hash"])
def test_what_a_strategy_gives_looks_like_it(strategy: str) -> None:
    assert strategy in strategy_words()
    scene = Scene(tuple(T), ("c1", "c2", "c3"))
    shares = share_all(scene, find_strategy(strategy))
    looks = _looks(_scene(shares), strategy)
    assert looks is not None
    assert looks.as_told is True
    assert strategy in looks.looks_like


def test_machine_room_nearby_is_named_only_where_rooms_decide() -> None:
    queues = [MessageQueue("T", f"east-{name}", queue_id) for name in "ab" for queue_id in range(2)]
    queues += [MessageQueue("T", "west-c", queue_id) for queue_id in range(4)]
    ids = ("east-1", "west-1", "west-2")
    shares = share_all(Scene(tuple(queues), ids), find_strategy("machine-room-nearby"))
    looks = _looks(_scene(shares, queues=queues), "machine-room-nearby")
    assert looks == Looks(True, (), ("machine-room-nearby",))
