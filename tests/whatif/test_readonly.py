"""What becomes of failed messages when a broker's write permission is taken: the decisions alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rmqctl.model.group import GroupConnections, GroupState, ProcessQueue, RunningInfo
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker, QueueData, TopicRoute
from rmqctl.model.topic import TopicConfig
from rmqctl.whatif.readonly import (
    GroupView,
    Mode,
    Other,
    Places,
    Verdict,
    Way,
    Why,
    by_verdict,
    decide,
    find_places,
    is_wiped,
    is_writable_elsewhere,
    member_mode,
    told_mode,
    writable_topics,
)

_HOLDS = ProcessQueue(0, 0, 0, None, dropped=False)
_DROPPED = ProcessQueue(0, 0, 0, None, dropped=True)
_MQ = MessageQueue("T", "broker-a", 0)
_ELSEWHERE = Places(("broker-b",))


def _view(*modes: Mode, places: Places = _ELSEWHERE, silent: Unknown | None = None) -> GroupView:
    return GroupView(
        group="G", state=GroupState.ONLINE, unseen_reason=None, member_count=1, consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING", topics={"T": 4}, modes=frozenset(modes), silent_reason=silent, places=places,
    )  # fmt: skip


def _route(**perms: tuple[int, int]) -> TopicRoute:
    """Return a route by broker: perm and write queues."""
    return TopicRoute(
        "%RETRY%G",
        tuple(
            QueueData(f"broker-{name}", 1, count, is_readable=bool(perm & 4), is_writable=bool(perm & 2), perm=perm)
            for name, (perm, count) in perms.items()
        ),
        tuple(Broker("C", f"broker-{name}", {0: f"{name}:1"}) for name in perms),
    )


def _told(view: GroupView, way: Way = Way.BROKER_PERMISSION) -> tuple[Verdict, str]:
    effect = decide(view, way)
    return effect.verdict, str(effect.why)


@pytest.mark.parametrize("mode", [Mode.CONCURRENT, Mode.ORDERLY])
def test_who_sends_something_blocks_unless_another_broker_takes_it(mode: Mode) -> None:
    assert _told(_view(mode)) == (Verdict.FINDS_ANOTHER, "WRITABLE_BROKER")
    assert _told(_view(mode, places=Places())) == (Verdict.BLOCKS, "NO_WRITABLE_BROKER")
    unheard = Places(unheard=("broker-b",), reason=Unknown.BROKER_UNREACHABLE)
    assert _told(_view(mode, places=unheard)) == (Verdict.UNKNOWN, "BROKER_UNREACHABLE")
    assert _told(_view(mode, places=Places(reason=Why.NO_RETRY_TOPIC))) == (Verdict.UNKNOWN, "NO_RETRY_TOPIC")


@pytest.mark.parametrize("mode", [Mode.ORDERLY_ENDLESS, Mode.POP, Mode.PULL, Mode.BROADCASTING])
@pytest.mark.parametrize("places", [_ELSEWHERE, Places(), Places(reason=Unknown.BROKER_UNREACHABLE)])
@pytest.mark.parametrize("way", Way)
def test_who_sends_nothing_is_not_affected_whatever_stands_elsewhere(mode: Mode, places: Places, way: Way) -> None:
    assert _told(_view(mode, places=places), way) == (Verdict.NOT_AFFECTED, str(mode))


def test_a_wiped_broker_still_takes_what_comes_back_to_it() -> None:
    way = Way.WIPE_WRITE_PERM
    assert _told(_view(Mode.CONCURRENT, places=Places()), way) == (Verdict.NOT_AFFECTED, "SEND_BACK_ACCEPTED")
    # Past the maximum, what is consumed in order is sent by the route, as producers send.
    assert _told(_view(Mode.ORDERLY, places=Places()), way) == (Verdict.BLOCKS, "NO_WRITABLE_BROKER")
    assert _told(_view(Mode.ORDERLY, Mode.CONCURRENT), way) == (Verdict.FINDS_ANOTHER, "WRITABLE_BROKER")


def test_one_member_that_sends_is_enough_to_block() -> None:
    assert _told(_view(Mode.ORDERLY_ENDLESS, Mode.CONCURRENT, places=Places()))[0] is Verdict.BLOCKS
    silent = _view(Mode.CONCURRENT, places=Places(), silent=Unknown.CLIENT_SILENT)
    assert _told(silent)[0] is Verdict.BLOCKS


@pytest.mark.parametrize("modes", [(), (Mode.CONCURRENT,), (Mode.ORDERLY_ENDLESS,)])
def test_a_member_that_does_not_tell_leaves_it_open(modes: tuple[Mode, ...]) -> None:
    view = _view(*modes, silent=Unknown.CLIENT_SILENT)
    assert _told(view) == (Verdict.UNKNOWN, "CLIENT_SILENT")


def test_nobody_seen_is_nothing_known() -> None:
    empty = replace(_view(), state=GroupState.EMPTY)
    assert _told(empty) == (Verdict.UNKNOWN, "NO_MEMBERS")
    hidden = replace(_view(), state=GroupState.UNKNOWN, unseen_reason=Unknown.BEHIND_PROXY)
    assert _told(hidden) == (Verdict.UNKNOWN, "BEHIND_PROXY")


def test_the_worst_comes_first() -> None:
    views = [
        replace(_view(Mode.POP), group="a"), replace(_view(Mode.CONCURRENT), group="b"),
        replace(_view(), group="c", state=GroupState.EMPTY),
        replace(_view(Mode.CONCURRENT, places=Places()), group="e"),
        replace(_view(Mode.CONCURRENT, places=Places()), group="d"),
    ]  # fmt: skip
    ordered = by_verdict(decide(view, Way.BROKER_PERMISSION) for view in views)
    assert [effect.view.group for effect in ordered] == ["d", "e", "c", "b", "a"]


_KNOWING = Other({"G"}, makes_groups=False, is_writable=True)
_MAKING = Other(set(), makes_groups=True, is_writable=True)
_REFUSING = Other(set(), makes_groups=False, is_writable=True)
_HALF_SILENT = Other(set(), None, None, Unknown.NOT_AUTHORISED)
_SILENT = Other(None, None, None, Unknown.BROKER_UNREACHABLE)


@pytest.mark.parametrize(
    ("perm", "count", "other", "expected"),
    [
        (6, 1, _KNOWING, Places(("broker-b",))),
        (2, 1, _KNOWING, Places(("broker-b",))),
        (6, 1, _MAKING, Places(("broker-b",))),
        (6, 1, _REFUSING, Places()),
        (4, 1, _KNOWING, Places()),
        (6, 0, _KNOWING, Places()),
        (6, 1, _HALF_SILENT, Places(unheard=("broker-b",), reason=Unknown.NOT_AUTHORISED)),
        (6, 1, _SILENT, Places(unheard=("broker-b",), reason=Unknown.BROKER_UNREACHABLE)),
        (4, 1, _SILENT, Places()),
    ],
)
def test_another_broker_counts_by_route_and_by_what_it_would_say(
    perm: int, count: int, other: Other, expected: Places
) -> None:
    assert find_places(_route(a=(6, 1), b=(perm, count)), "broker-a", "G", {"broker-b": other}) == expected


def test_brokers_without_a_master_or_unknown_to_the_name_server() -> None:
    route = _route(a=(6, 1), b=(6, 1), c=(6, 1))
    slave_only = replace(route, brokers=(route.brokers[0], Broker("C", "broker-b", {1: "b:2"}), route.brokers[2]))
    told = {"broker-b": _KNOWING, "broker-c": _KNOWING}
    assert find_places(slave_only, "broker-a", "G", told) == Places(("broker-c",))
    gone = find_places(route, "broker-a", "G", {"broker-b": _REFUSING})
    assert gone == Places(unheard=("broker-c",), reason=Unknown.BROKER_NOT_REGISTERED)
    # One that takes it is enough.
    some = find_places(route, "broker-a", "G", {"broker-b": _KNOWING, "broker-c": _SILENT})
    assert some == Places(("broker-b",), ("broker-c",))


def _running(
    holds: dict[MessageQueue, ProcessQueue] | None = None,
    pops: dict[MessageQueue, int] | None = None,
    **properties: str,
) -> RunningInfo:
    return RunningInfo({"messageModel": "CLUSTERING", **properties}, holds or {}, pops or {})


def test_what_a_member_says_of_itself() -> None:
    concurrent = {"PROP_CONSUMEORDERLY": "false", "maxReconsumeTimes": "-1"}
    assert member_mode(_running(**concurrent), {"T"}) is Mode.CONCURRENT
    assert member_mode(_running(**concurrent, clientRebalance="true"), {"T"}) is Mode.CONCURRENT
    assert member_mode(_running(PROP_CONSUMEORDERLY="true", maxReconsumeTimes="-1"), {"T"}) is Mode.ORDERLY_ENDLESS
    assert member_mode(_running(PROP_CONSUMEORDERLY="true", maxReconsumeTimes="16"), {"T"}) is Mode.ORDERLY
    assert member_mode(_running(PROP_CONSUMEORDERLY="true"), {"T"}) is None
    assert member_mode(_running(), {"T"}) is None
    assert member_mode(RunningInfo({**concurrent, "messageModel": "BROADCASTING"}, {}, {}), {"T"}) is Mode.BROADCASTING


def test_whether_a_member_pops_is_seen_by_what_it_holds() -> None:
    words = {"PROP_CONSUMEORDERLY": "false", "clientRebalance": "false"}
    retries = MessageQueue("%RETRY%G", "broker-a", 0)
    pops = {MessageQueue("T", "broker-a", -1): 3}
    # Retries are always pulled.
    assert member_mode(_running({retries: _HOLDS}, pops, **words), {"T"}) is Mode.POP
    assert member_mode(_running({retries: _HOLDS, _MQ: _HOLDS}, **words), {"T"}) is Mode.CONCURRENT
    assert member_mode(_running({_MQ: _DROPPED}, pops, **words), {"T"}) is Mode.POP
    assert member_mode(_running({retries: _HOLDS}, **words), {"T"}) is None
    assert member_mode(_running({}, pops, **words), {"U"}) is None


@pytest.mark.parametrize(
    ("consume_type", "model", "expected"),
    [
        ("CONSUME_PASSIVELY", "CLUSTERING", None),
        ("CONSUME_PASSIVELY", "BROADCASTING", Mode.BROADCASTING),
        ("CONSUME_ACTIVELY", "CLUSTERING", Mode.PULL),
        ("CONSUME_POP", "CLUSTERING", Mode.POP),
    ],
)
def test_what_brokers_know_of_all_members(consume_type: str, model: str, expected: Mode | None) -> None:
    assert told_mode(GroupConnections((), consume_type, model, "CONSUME_FROM_LAST_OFFSET", {})) is expected


def test_topics_that_producers_can_send_to() -> None:
    configs = {
        "b": TopicConfig("b", 4, 4, 6), "a": TopicConfig("a", 0, 1, 2), "read-only": TopicConfig("read-only", 4, 4, 4),
        "no-queues": TopicConfig("no-queues", 4, 0, 6),
    }  # fmt: skip
    assert writable_topics(configs) == ["a", "b"]
    assert is_writable_elsewhere(_route(a=(6, 1), b=(6, 1)), "broker-a")
    assert not is_writable_elsewhere(_route(a=(6, 1), b=(4, 1)), "broker-a")
    assert not is_writable_elsewhere(_route(a=(6, 1), b=(6, 0)), "broker-a")
    assert not is_writable_elsewhere(_route(a=(6, 1)), "broker-a")


def test_a_wiped_broker_is_seen_in_the_route() -> None:
    assert is_wiped(_route(a=(4, 1), b=(6, 1)), "broker-a")
    assert not is_wiped(_route(a=(4, 1), b=(6, 1)), "broker-b")
    assert not is_wiped(_route(b=(4, 1)), "broker-a")
