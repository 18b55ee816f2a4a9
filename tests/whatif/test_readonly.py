"""What becomes of failed messages when a broker's write permission is taken: the decisions alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rmqctl.model.group import GroupConnections, GroupState, ProcessQueueInfo, RunningInfo
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, QueueData, TopicRoute
from rmqctl.model.topic import TopicConfig
from rmqctl.whatif.readonly import (
    GroupView,
    MemberMode,
    OtherBroker,
    Readonly,
    ReadonlyReason,
    ReadonlyVerdict,
    RemovalMethod,
    RetryBrokers,
    by_verdict,
    choose_removal,
    decide,
    find_retry_brokers,
    is_wiped,
    is_writable_elsewhere,
    member_mode,
    reported_mode,
    writable_topics,
)

_HOLDS = ProcessQueueInfo(0, 0, 0, None, dropped=False)
_DROPPED = ProcessQueueInfo(0, 0, 0, None, dropped=True)
_MQ = MessageQueue("T", "broker-a", 0)
_ELSEWHERE = RetryBrokers(("broker-b",))


def _view(*modes: MemberMode, places: RetryBrokers = _ELSEWHERE, silent: Unknown | None = None) -> GroupView:
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
        tuple(BrokerData("C", f"broker-{name}", {0: f"{name}:1"}) for name in perms),
    )


def _told(view: GroupView, way: RemovalMethod = RemovalMethod.BROKER_PERMISSION) -> tuple[ReadonlyVerdict, str]:
    effect = decide(view, way)
    return effect.verdict, str(effect.why)


@pytest.mark.parametrize("mode", [MemberMode.CONCURRENT, MemberMode.ORDERLY])
def test_who_sends_something_blocks_unless_another_broker_takes_it(mode: MemberMode) -> None:
    assert _told(_view(mode)) == (ReadonlyVerdict.FINDS_ANOTHER, "WRITABLE_BROKER")
    assert _told(_view(mode, places=RetryBrokers())) == (ReadonlyVerdict.BLOCKS, "NO_WRITABLE_BROKER")
    unheard = RetryBrokers(unheard=("broker-b",), reason=Unknown.BROKER_UNREACHABLE)
    assert _told(_view(mode, places=unheard)) == (ReadonlyVerdict.UNKNOWN, "BROKER_UNREACHABLE")
    assert _told(_view(mode, places=RetryBrokers(reason=ReadonlyReason.NO_RETRY_TOPIC))) == (
        ReadonlyVerdict.UNKNOWN,
        "NO_RETRY_TOPIC",
    )


@pytest.mark.parametrize("mode", [MemberMode.ORDERLY_ENDLESS, MemberMode.POP, MemberMode.PULL, MemberMode.BROADCASTING])
@pytest.mark.parametrize("places", [_ELSEWHERE, RetryBrokers(), RetryBrokers(reason=Unknown.BROKER_UNREACHABLE)])
@pytest.mark.parametrize("way", RemovalMethod)
def test_who_sends_nothing_is_not_affected_whatever_stands_elsewhere(
    mode: MemberMode, places: RetryBrokers, way: RemovalMethod
) -> None:
    assert _told(_view(mode, places=places), way) == (ReadonlyVerdict.NOT_AFFECTED, str(mode))


def test_a_wiped_broker_still_takes_what_comes_back_to_it() -> None:
    way = RemovalMethod.WIPE_WRITE_PERM
    assert _told(_view(MemberMode.CONCURRENT, places=RetryBrokers()), way) == (
        ReadonlyVerdict.NOT_AFFECTED,
        "SEND_BACK_ACCEPTED",
    )
    # Past the maximum, what is consumed in order is sent by the route, as producers send.
    assert _told(_view(MemberMode.ORDERLY, places=RetryBrokers()), way) == (
        ReadonlyVerdict.BLOCKS,
        "NO_WRITABLE_BROKER",
    )
    assert _told(_view(MemberMode.ORDERLY, MemberMode.CONCURRENT), way) == (
        ReadonlyVerdict.FINDS_ANOTHER,
        "WRITABLE_BROKER",
    )


def test_one_member_that_sends_is_enough_to_block() -> None:
    assert (
        _told(_view(MemberMode.ORDERLY_ENDLESS, MemberMode.CONCURRENT, places=RetryBrokers()))[0]
        is ReadonlyVerdict.BLOCKS
    )
    silent = _view(MemberMode.CONCURRENT, places=RetryBrokers(), silent=Unknown.CLIENT_SILENT)
    assert _told(silent)[0] is ReadonlyVerdict.BLOCKS


@pytest.mark.parametrize("modes", [(), (MemberMode.CONCURRENT,), (MemberMode.ORDERLY_ENDLESS,)])
def test_a_member_that_does_not_tell_leaves_it_open(modes: tuple[MemberMode, ...]) -> None:
    view = _view(*modes, silent=Unknown.CLIENT_SILENT)
    assert _told(view) == (ReadonlyVerdict.UNKNOWN, "CLIENT_SILENT")


def test_nobody_seen_is_nothing_known() -> None:
    empty = replace(_view(), state=GroupState.EMPTY)
    assert _told(empty) == (ReadonlyVerdict.UNKNOWN, "NO_MEMBERS")
    hidden = replace(_view(), state=GroupState.UNKNOWN, unseen_reason=Unknown.BEHIND_PROXY)
    assert _told(hidden) == (ReadonlyVerdict.UNKNOWN, "BEHIND_PROXY")


def test_the_worst_comes_first() -> None:
    views = [
        replace(_view(MemberMode.POP), group="a"), replace(_view(MemberMode.CONCURRENT), group="b"),
        replace(_view(), group="c", state=GroupState.EMPTY),
        replace(_view(MemberMode.CONCURRENT, places=RetryBrokers()), group="e"),
        replace(_view(MemberMode.CONCURRENT, places=RetryBrokers()), group="d"),
    ]  # fmt: skip
    ordered = by_verdict(decide(view, RemovalMethod.BROKER_PERMISSION) for view in views)
    assert [effect.view.group for effect in ordered] == ["d", "e", "c", "b", "a"]


_KNOWING = OtherBroker({"G"}, makes_groups=False, is_writable=True)
_MAKING = OtherBroker(set(), makes_groups=True, is_writable=True)
_REFUSING = OtherBroker(set(), makes_groups=False, is_writable=True)
_HALF_SILENT = OtherBroker(set(), None, None, Unknown.NOT_AUTHORISED)
_SILENT = OtherBroker(None, None, None, Unknown.BROKER_UNREACHABLE)


@pytest.mark.parametrize(
    ("perm", "count", "other", "expected"),
    [
        (6, 1, _KNOWING, RetryBrokers(("broker-b",))),
        (2, 1, _KNOWING, RetryBrokers(("broker-b",))),
        (6, 1, _MAKING, RetryBrokers(("broker-b",))),
        (6, 1, _REFUSING, RetryBrokers()),
        (4, 1, _KNOWING, RetryBrokers()),
        (6, 0, _KNOWING, RetryBrokers()),
        (6, 1, _HALF_SILENT, RetryBrokers(unheard=("broker-b",), reason=Unknown.NOT_AUTHORISED)),
        (6, 1, _SILENT, RetryBrokers(unheard=("broker-b",), reason=Unknown.BROKER_UNREACHABLE)),
        (4, 1, _SILENT, RetryBrokers()),
    ],
)
def test_another_broker_counts_by_route_and_by_what_it_would_say(
    perm: int, count: int, other: OtherBroker, expected: RetryBrokers
) -> None:
    assert find_retry_brokers(_route(a=(6, 1), b=(perm, count)), "broker-a", "G", {"broker-b": other}) == expected


def test_brokers_without_a_master_or_unknown_to_the_name_server() -> None:
    route = _route(a=(6, 1), b=(6, 1), c=(6, 1))
    slave_only = replace(route, brokers=(route.brokers[0], BrokerData("C", "broker-b", {1: "b:2"}), route.brokers[2]))
    told = {"broker-b": _KNOWING, "broker-c": _KNOWING}
    assert find_retry_brokers(slave_only, "broker-a", "G", told) == RetryBrokers(("broker-c",))
    gone = find_retry_brokers(route, "broker-a", "G", {"broker-b": _REFUSING})
    assert gone == RetryBrokers(unheard=("broker-c",), reason=Unknown.BROKER_NOT_REGISTERED)
    # One that takes it is enough.
    some = find_retry_brokers(route, "broker-a", "G", {"broker-b": _KNOWING, "broker-c": _SILENT})
    assert some == RetryBrokers(("broker-b",), ("broker-c",))


def _running(
    holds: dict[MessageQueue, ProcessQueueInfo] | None = None,
    pops: dict[MessageQueue, int] | None = None,
    **properties: str,
) -> RunningInfo:
    return RunningInfo({"messageModel": "CLUSTERING", **properties}, holds or {}, pops or {})


def test_what_a_member_says_of_itself() -> None:
    concurrent = {"PROP_CONSUMEORDERLY": "false", "maxReconsumeTimes": "-1"}
    assert member_mode(_running(**concurrent), {"T"}) is MemberMode.CONCURRENT
    assert member_mode(_running(**concurrent, clientRebalance="true"), {"T"}) is MemberMode.CONCURRENT
    assert (
        member_mode(_running(PROP_CONSUMEORDERLY="true", maxReconsumeTimes="-1"), {"T"}) is MemberMode.ORDERLY_ENDLESS
    )
    assert member_mode(_running(PROP_CONSUMEORDERLY="true", maxReconsumeTimes="16"), {"T"}) is MemberMode.ORDERLY
    assert member_mode(_running(PROP_CONSUMEORDERLY="true"), {"T"}) is None
    assert member_mode(_running(), {"T"}) is None
    assert (
        member_mode(RunningInfo({**concurrent, "messageModel": "BROADCASTING"}, {}, {}), {"T"})
        is MemberMode.BROADCASTING
    )


def test_whether_a_member_pops_is_seen_by_what_it_holds() -> None:
    words = {"PROP_CONSUMEORDERLY": "false", "clientRebalance": "false"}
    retries = MessageQueue("%RETRY%G", "broker-a", 0)
    pops = {MessageQueue("T", "broker-a", -1): 3}
    # Retries are always pulled.
    assert member_mode(_running({retries: _HOLDS}, pops, **words), {"T"}) is MemberMode.POP
    assert member_mode(_running({retries: _HOLDS, _MQ: _HOLDS}, **words), {"T"}) is MemberMode.CONCURRENT
    assert member_mode(_running({_MQ: _DROPPED}, pops, **words), {"T"}) is MemberMode.POP
    assert member_mode(_running({retries: _HOLDS}, **words), {"T"}) is None
    assert member_mode(_running({}, pops, **words), {"U"}) is None


@pytest.mark.parametrize(
    ("consume_type", "model", "expected"),
    [
        ("CONSUME_PASSIVELY", "CLUSTERING", None),
        ("CONSUME_PASSIVELY", "BROADCASTING", MemberMode.BROADCASTING),
        ("CONSUME_ACTIVELY", "CLUSTERING", MemberMode.PULL),
        ("CONSUME_POP", "CLUSTERING", MemberMode.POP),
    ],
)
def test_what_brokers_know_of_all_members(consume_type: str, model: str, expected: MemberMode | None) -> None:
    assert reported_mode(GroupConnections((), consume_type, model, "CONSUME_FROM_LAST_OFFSET", {})) is expected


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


@pytest.mark.parametrize(
    ("view", "way"),
    [
        (_view(MemberMode.CONCURRENT), RemovalMethod.BROKER_PERMISSION),
        (_view(MemberMode.CONCURRENT, places=RetryBrokers()), RemovalMethod.WIPE_WRITE_PERM),
        (_view(MemberMode.CONCURRENT, MemberMode.ORDERLY), RemovalMethod.WIPE_WRITE_PERM),
        (_view(silent=Unknown.CLIENT_SILENT), RemovalMethod.WIPE_WRITE_PERM),
        # Without members: what would happen if some started.
        (replace(_view(), state=GroupState.EMPTY), RemovalMethod.BROKER_PERMISSION),
        (replace(_view(places=RetryBrokers()), state=GroupState.EMPTY), RemovalMethod.WIPE_WRITE_PERM),
        (
            replace(_view(places=RetryBrokers(reason=ReadonlyReason.NO_RETRY_TOPIC)), state=GroupState.EMPTY),
            RemovalMethod.BROKER_PERMISSION,
        ),
    ],
)
def test_the_setting_is_chosen_only_where_no_group_may_block(view: GroupView, way: RemovalMethod) -> None:
    effects = (decide(view, RemovalMethod.BROKER_PERMISSION),)
    broker = BrokerData("C", "broker-a", {0: "a:1"})
    found = Readonly(broker, RemovalMethod.BROKER_PERMISSION, False, False, (), effects, (), (), 0)
    assert choose_removal(found)[0] is way
