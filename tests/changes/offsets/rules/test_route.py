"""Which way a reset takes for each kind of group, and which groups are refused."""

from __future__ import annotations

from itertools import product

import pytest

from rmqctl.changes.offsets.rules.route import (
    CONSUME_ACTIVELY,
    GroupSituation,
    choose_route,
    describe_routes,
    is_cpp_only,
    require_one_way,
    require_resettable,
)
from rmqctl.errors import RefusedError
from rmqctl.model.group import BROADCASTING, GroupState
from rmqctl.model.plan import Route
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue

_PUSH, _POP = "CONSUME_PASSIVELY", "CONSUME_POP"


def _situation(state: GroupState = GroupState.ONLINE, **changes: object) -> GroupSituation:
    unseen = Unknown.BROKER_UNREACHABLE if state is GroupState.UNKNOWN else None
    settings = {"consume_type": _PUSH, "message_model": "CLUSTERING", "languages": frozenset({"JAVA"}), **changes}
    return GroupSituation("G", state, unseen, **settings)  # type: ignore[arg-type]


def _refusal(
    situation: GroupSituation, server_side: tuple[bool, ...] = (True,), *, assume_offline: bool = False
) -> str:
    with pytest.raises(RefusedError) as caught:
        require_resettable(situation, assume_offline=assume_offline, is_server_side=server_side)
    assert caught.value.hint
    assert caught.value.exit_code == 1
    return caught.value.sentence


def _passes(
    situation: GroupSituation, server_side: tuple[bool, ...] = (True,), *, assume_offline: bool = False
) -> bool:
    try:
        require_resettable(situation, assume_offline=assume_offline, is_server_side=server_side)
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("state", "assume_offline", "is_server_side", "route"),
    [
        (GroupState.EMPTY, False, False, Route.BROKER_WRITE),
        (GroupState.EMPTY, False, True, Route.BROKER_WRITE),
        (GroupState.EMPTY, True, True, Route.BROKER_WRITE),
        (GroupState.ONLINE, False, True, Route.SERVER_SIDE),
        (GroupState.ONLINE, False, False, Route.CLIENT_PUSH),
        # Members that are seen are there, whatever is assumed.
        (GroupState.ONLINE, True, True, Route.SERVER_SIDE),
        (GroupState.ONLINE, True, False, Route.CLIENT_PUSH),
        (GroupState.UNKNOWN, False, True, Route.SERVER_SIDE),
        (GroupState.UNKNOWN, True, True, Route.BROKER_WRITE),
        (GroupState.UNKNOWN, True, False, Route.BROKER_WRITE),
    ],
)
def test_the_route(state: GroupState, assume_offline: bool, is_server_side: bool, route: Route) -> None:
    situation = _situation(state)
    assert _passes(situation, (is_server_side,), assume_offline=assume_offline)
    assert choose_route(situation, assume_offline=assume_offline, is_server_side=is_server_side) is route


@pytest.mark.parametrize("state", [GroupState.ONLINE, GroupState.UNKNOWN])
@pytest.mark.parametrize("assume_offline", [False, True])
@pytest.mark.parametrize("server_side", [(True,), (False,), (True, False)])
def test_broadcasting_is_always_refused(state: GroupState, assume_offline: bool, server_side: tuple[bool, ...]) -> None:
    situation = _situation(state, message_model=BROADCASTING)
    assert "broadcasts" in _refusal(situation, server_side, assume_offline=assume_offline)


def test_who_is_there_must_be_known_unless_the_broker_resets_by_itself() -> None:
    situation = _situation(GroupState.UNKNOWN)
    assert _passes(situation, (True, True))
    for server_side in ((False,), (True, False)):
        assert "(BROKER_UNREACHABLE)" in _refusal(situation, server_side)
        assert _passes(situation, server_side, assume_offline=True)


@pytest.mark.parametrize("server_side", [(True,), (False,), (True, False)])
def test_clients_that_pull_by_themselves_are_refused_online(server_side: tuple[bool, ...]) -> None:
    situation = _situation(consume_type=CONSUME_ACTIVELY)
    # Brokers that leave it to clients reach none of these; others send some of them there, half.
    does = "may ignore a reset or overwrite it" if any(server_side) else "and ignore a reset"
    for assume_offline in (False, True):
        sentence = _refusal(situation, server_side, assume_offline=assume_offline)
        assert "pull offsets themselves" in sentence
        assert does in sentence
    assert _passes(_situation(GroupState.EMPTY, consume_type=None), server_side)


@pytest.mark.parametrize("server_side", [(True,), (False,), (True, False)])
def test_popping_groups_need_brokers_that_reset_by_themselves(server_side: tuple[bool, ...]) -> None:
    situation = _situation(is_popping=True, consume_type=_POP)
    if all(server_side):
        assert _passes(situation, server_side)
    else:
        assert "pops" in _refusal(situation, server_side)
    assert _passes(_situation(GroupState.EMPTY, is_popping=True), server_side)


def test_a_reset_would_miss_one_of_two_members_that_pop_and_pull_a_queue() -> None:
    mixed, pulled = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
    with pytest.raises(RefusedError, match="T@broker-a:0"):
        require_one_way(_situation(both_ways=frozenset({mixed})), [mixed, pulled])
    require_one_way(_situation(both_ways=frozenset({mixed})), [pulled])
    require_one_way(_situation(GroupState.EMPTY, both_ways=frozenset({mixed})), [mixed])


@pytest.mark.parametrize(
    ("languages", "passes"),
    [
        ({"JAVA"}, True),
        ({"CPP"}, True),
        ({"JAVA", "GO"}, True),
        ({"JAVA", "PYTHON", "GO"}, True),
        ({"JAVA", "CPP"}, False),
        ({"GO", "CPP"}, False),
        (set(), True),
    ],
)
def test_cpp_beside_others_can_not_be_pushed(languages: set[str], passes: bool) -> None:
    situation = _situation(languages=frozenset(languages))
    assert _passes(situation, (False,)) is passes
    assert _passes(situation, (True, False)) is passes
    assert _passes(situation, (True,))
    assert _passes(_situation(GroupState.EMPTY, languages=frozenset(languages)), (False,))
    if not passes:
        assert "CPP" in _refusal(situation, (False,))


def test_only_groups_of_cpp_alone_get_its_body() -> None:
    assert is_cpp_only({"CPP"})
    assert not any(map(is_cpp_only, ({"JAVA"}, {"CPP", "JAVA"}, set())))


@pytest.mark.parametrize("server_side", list(product([True, False], repeat=2)))
@pytest.mark.parametrize("state", list(GroupState))
@pytest.mark.parametrize("assume_offline", [True, False])
@pytest.mark.parametrize("consume_type", [None, _PUSH, _POP, CONSUME_ACTIVELY])
@pytest.mark.parametrize("languages", [{"JAVA"}, {"CPP"}, {"JAVA", "CPP"}])
def test_nothing_is_stored_under_a_running_group_and_nobody_is_pushed_who_can_not_be(
    server_side: tuple[bool, ...], state: GroupState, assume_offline: bool, consume_type: str | None,
    languages: set[str],
) -> None:  # fmt: skip
    situation = _situation(
        state, consume_type=consume_type, is_popping=consume_type == _POP, languages=frozenset(languages)
    )
    if not _passes(situation, server_side, assume_offline=assume_offline):
        return
    for each in server_side:
        route = choose_route(situation, assume_offline=assume_offline, is_server_side=each)
        if route is Route.BROKER_WRITE:
            assert state is GroupState.EMPTY or (state is GroupState.UNKNOWN and assume_offline)
        elif route is Route.CLIENT_PUSH:
            assert state is GroupState.ONLINE
            assert not each
            assert consume_type in (None, _PUSH)
            assert len(languages) == 1
        else:
            assert route is Route.SERVER_SIDE
            assert each


def test_each_way_says_what_it_does_to_the_group() -> None:
    def codes(situation: GroupSituation, *routes: Route) -> list[str]:
        return [item.code for item in describe_routes(situation, routes)]

    online, empty = _situation(), _situation(GroupState.EMPTY)
    assert codes(empty, Route.BROKER_WRITE) == ["OFFLINE"]
    assert codes(online, Route.SERVER_SIDE) == ["SERVER_SIDE"]
    assert codes(online, Route.CLIENT_PUSH) == ["CLIENTS_PAUSE"]
    assert codes(online, Route.CLIENT_PUSH, Route.SERVER_SIDE) == ["SERVER_SIDE", "CLIENTS_PAUSE"]
    assert codes(_situation(is_popping=True), Route.SERVER_SIDE) == ["SERVER_SIDE", "POPPED_COME_BACK"]
    assert codes(_situation(GroupState.UNKNOWN), Route.SERVER_SIDE) == ["SERVER_SIDE", "MEMBERS_UNSEEN"]
    go = _situation(languages=frozenset({"GO", "JAVA"}))
    assert codes(go, Route.SERVER_SIDE) == ["SERVER_SIDE", "GO_FORGETS"]
    assert codes(go, Route.CLIENT_PUSH) == ["CLIENTS_PAUSE", "GO_PAUSES"]
    assert codes(empty) == []
    for item in describe_routes(_situation(GroupState.UNKNOWN, is_popping=True), list(Route)):
        assert item.text.endswith(".")


def test_a_push_is_described_in_short_sentences() -> None:
    (item,) = describe_routes(_situation(), [Route.CLIENT_PUSH])
    sentences = item.text.removesuffix(".").split(". ")
    assert len(sentences) <= 3
    assert max(len(sentence.split()) for sentence in sentences) <= 25
    assert sentences[0].startswith(f"All members of {_situation().group} pause for 10-16 s per topic and broker")
