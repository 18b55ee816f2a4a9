from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Assignment, Options
from rmqctl.whatif.allocation import Trial
from rmqctl.whatif.changes import QueueChange, TrialChanges
from rmqctl.whatif.group_snapshot import GroupSnapshot
from rmqctl.whatif.sized_group import shape
from rmqctl.whatif.trials import TrialRequest, require_known, try_all
from tests.scripted_peer import SILENCE

from .groups import AS_AVERAGELY, AS_CIRCLE, CIRCLE, T, codes, group_cluster, says, sharing, text_of, tried, tried_once

ROOMS = tuple(MessageQueue("T", name, queue_id) for name in ("east@a", "west@b", "plain") for queue_id in range(2))


def _try(
    snapshot: GroupSnapshot, *strategies: str, changes: TrialChanges | None = None, custom: Any = None,
    resolvers: Any = None, question: Mapping[str, Any] | None = None, **given: Any,
) -> list[Trial]:  # fmt: skip
    asked = [TrialRequest(snapshot, **(question or {}))]
    return try_all(asked, changes or TrialChanges(), strategies, given, custom=custom or {}, resolvers=resolvers or {})


def _counts(shares: Mapping[str, Sequence[MessageQueue]]) -> list[int]:
    return [len(share) for share in shares.values()]


# Without a running group


def test_five_brokers_of_two_queues_over_three_clients() -> None:
    (trial,) = _try(shape(5, 2, 3))
    assert (trial.outcome.strategy, _counts(trial.outcome.after)) == ("averagely", [4, 3, 3])
    assert (trial.outcome.moved, trial.match, trial.most_moved_count) == ((), None, None)


def test_a_client_with_queues_of_its_own_can_go() -> None:
    queues = shape(1, 4, 1).queues
    options = Options(configured={"c1": queues[:2], "c2": queues[2:]})
    changes = TrialChanges(remove_clients=("c1",))
    (trial,) = _try(GroupSnapshot(queues, ("c1", "c2")), "config", changes=changes, question={"options": options})
    assert trial.outcome.after == {"c2": list(queues[2:])}
    assert trial.outcome.unowned == queues[:2]


def test_a_change_is_compared_with_what_the_same_strategy_gave_before() -> None:
    (trial,) = _try(shape(1, 8, 3), "circle", changes=TrialChanges(remove_clients=("client-3",)))
    assert _counts(trial.outcome.before) == [3, 3, 2]
    assert _counts(trial.outcome.after) == [4, 4]
    first = trial.outcome.moved[0]
    assert (str(first.mq), first.before, first.after) == ("topic@broker-1:2", ("client-3",), ("client-1",))


def test_a_described_strategy_stands_before_and_others_are_tried_after_it() -> None:
    trials = _try(shape(1, 8, 3), "averagely", "circle", question={"strategy": "circle"})
    assert trials[0].outcome.before == trials[1].outcome.after
    assert [len(trial.outcome.moved) for trial in trials] == [6, 0]


def test_sticky_moves_least_from_where_averagely_began() -> None:
    sticky, averagely = _try(shape(1, 8, 3), "sticky", "averagely", changes=TrialChanges(add_clients=("client-4",)))
    assert sticky.outcome.before == averagely.outcome.before
    assert len(sticky.outcome.moved) == 2 < len(averagely.outcome.moved)


def test_topics_are_shared_one_by_one() -> None:
    queues = tuple(MessageQueue(topic, "broker-a", queue_id) for topic in "TU" for queue_id in range(3))
    (trial,) = _try(GroupSnapshot(queues, ("c2", "c1")))
    assert [str(mq) for mq in trial.outcome.after["c1"]] == [
        "T@broker-a:0", "T@broker-a:1", "U@broker-a:0", "U@broker-a:1",
    ]  # fmt: skip


def test_a_topic_whose_clients_have_all_gone_is_nobodys() -> None:
    u = MessageQueue("U", "broker-c", 0)
    snapshot = GroupSnapshot((*T, u), ("c1", "c2"), strangers={"U": frozenset({"c2"})})
    (trial,) = _try(snapshot)
    assert trial.outcome.after == {"c1": [*T[:4], u], "c2": T[4:]}
    (left,) = _try(snapshot, changes=TrialChanges(remove_clients=("c1",)))
    assert (left.outcome.after, left.outcome.unowned) == ({"c2": T}, (u,))
    (come,) = _try(snapshot, changes=TrialChanges(add_clients=("c3",)))
    assert u in come.outcome.after["c1"]


def test_order_does_not_matter() -> None:
    snapshot = shape(2, 4, 3)
    turned = GroupSnapshot(snapshot.queues[::-1], snapshot.client_ids[::-1])
    assert _try(turned)[0].outcome.after == _try(snapshot)[0].outcome.after


def test_clients_with_one_id_are_warned_of_and_computed_as_rocketmq_does() -> None:
    (trial,) = _try(GroupSnapshot(tuple(T), ("c1", "c1", "c2")))
    assert trial.outcome.after == {"c1": T[:3], "c2": T[6:]}
    assert codes(trial) == ["DUPLICATE_CLIENT_ID", "UNOWNED_QUEUES"]


def test_config_gives_all_the_same() -> None:
    (trial,) = _try(GroupSnapshot(tuple(T), ("c1", "c2")), "config", question={"options": Options(configured=T[:2])})
    assert trial.outcome.after == {"c1": T[:2], "c2": T[:2]}
    assert trial.outcome.shared == tuple(T[:2])
    assert codes(trial) == ["UNOWNED_QUEUES", "SHARED_QUEUES"]


def test_config_gives_a_client_each_queue_once_however_many_topics_there_are() -> None:
    queues = [T[0], MessageQueue("U", "broker-a", 0)]
    for configured in (queues, [*queues, queues[0]]):
        (trial,) = _try(
            GroupSnapshot(tuple(queues), ("c1",)), "config", question={"options": Options(configured=configured)}
        )
        assert trial.outcome.after == {"c1": queues}
        assert trial.outcome.shared == ()
        assert codes(trial) == []


def test_a_queue_that_is_configured_twice_has_one_owner() -> None:
    (trial,) = _try(GroupSnapshot((T[0],), ("c1",)), "config", question={"options": Options(configured=[T[0], T[0]])})
    assert codes(trial) == []


# Rooms


def test_machine_room_names_rooms_without_queues() -> None:
    snapshot = GroupSnapshot(ROOMS, ("c1", "c2"))
    # A description is computed as RocketMQ would; who names a room at the command line means one that there is.
    (trial,) = _try(snapshot, "machine-room", question={"options": Options(rooms=("east", "north"))})
    with pytest.raises(NotFoundError) as caught:
        _try(snapshot, "machine-room", rooms=("east", "north"))
    assert caught.value.sentence == "Room north has no queues: no broker is named north@NAME."
    assert caught.value.hint == "Brokers: east@a, plain, west@b."
    assert _counts(trial.outcome.after) == [1, 1]
    assert text_of(trial, "ROOM_WITHOUT_QUEUES") == "Room north has no queues: no broker is named north@NAME."


def test_nearby_names_rooms_without_clients_and_without_queues() -> None:
    snapshot = GroupSnapshot(ROOMS, ("east@1", "north@1"))
    (trial,) = _try(snapshot, "machine-room-nearby", site_of="@")
    assert text_of(trial, "ROOM_WITHOUT_QUEUES").startswith("Room north has no queues: ")
    texts = [concern.text for concern in trial.concerns if concern.code == "ROOM_WITHOUT_CLIENTS"]
    assert [text.split(":")[0] for text in texts] == ["Room plain has no clients", "Room west has no clients"]
    # As RocketMQ does it, all share those.
    assert _counts(trial.outcome.after) == [4, 2]


def test_rooms_come_from_a_table_or_a_plugin_too() -> None:
    snapshot = GroupSnapshot(ROOMS, ("c1", "c2"))
    table = {"east@a": "e", "west@b": "w", "plain": "w", "c1": "e", "c2": "w"}
    (by_table,) = _try(snapshot, "machine-room-nearby", question={"site_of": table})
    assert _counts(by_table.outcome.after) == [2, 4]
    resolvers = {"mine": lambda kind, name: table[name] if kind in ("broker", "client") else None}
    (by_plugin,) = _try(snapshot, "machine-room-nearby", site_of="mine", resolvers=resolvers)
    assert by_plugin.outcome.after == by_table.outcome.after


def test_a_name_without_a_room_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^The room of client c2 is unknown\.$"):
        _try(
            GroupSnapshot(ROOMS[:1], ("c1", "c2")),
            "machine-room-nearby",
            question={"site_of": {"east@a": "e", "c1": "e"}},
        )


@pytest.mark.parametrize(
    ("site_of", "hint"),
    [
        ("mnie", "Did you mean mine?"),
        ("--", "Use for example -, for"),
        ("x", "Use for example"),
        ("", "Use for example"),
    ],
)
def test_what_tells_no_rooms_is_refused(site_of: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        _try(GroupSnapshot(ROOMS, ("c1",)), "machine-room-nearby", site_of=site_of, resolvers={"mine": lambda *_: "e"})
    assert caught.value.sentence == f"siteOf {site_of!r} is neither a separator nor a plugin's site resolver."
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)


# What is refused


@pytest.mark.parametrize(
    ("strategy", "sentence", "hint"),
    [
        ("avergely", "Unknown strategy 'avergely'.", "Did you mean averagely?"),
        ("zzz", "Unknown strategy 'zzz'.", "Use one of: averagely, circle, "),
        ("", "Unknown strategy ''.", "Use one of: "),
        ("config", "The strategy config needs the queues of each client.", "Use --spec"),
        ("machine-room", "The strategy machine-room needs the rooms.", "Add --room ROOM"),
    ],
)
def test_a_strategy_that_can_not_be_run(strategy: str, sentence: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        _try(shape(1, 2, 1), strategy)
    assert caught.value.sentence == sentence
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)


def test_of_several_groups_the_wrong_ones_number_is_told() -> None:
    groups = [TrialRequest(shape(1, 2, 1)), TrialRequest(shape(1, 2, 1), "config"), TrialRequest(shape(1, 2, 1))]
    with pytest.raises(UsageError, match=r"^Group 2: The strategy config needs"):
        try_all(groups, TrialChanges(), (), {}, custom={}, resolvers={})


def test_unknown_strategies_are_found_before_anybody_is_asked() -> None:
    require_known(["AVG", "config", "machine-room", "mine"], {"mine": lambda queues, ids, options: {}})
    with pytest.raises(UsageError, match="Unknown strategy 'mine'"):
        require_known(["mine"], {})


def test_a_ring_that_no_machine_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match=r"virtualNodes 1000000000 .* 10000000"):
        _try(shape(1, 2, 1), "consistent-hash", virtual_nodes=10**9)
    with pytest.raises(UsageError, match="virtualNodes is -1"):
        _try(shape(1, 2, 1), "consistent-hash", virtual_nodes=-1)


def test_weights_that_are_none_are_refused() -> None:
    for weight in (-1.0, float("inf"), float("nan")):
        options = Options(weights={T[0]: weight})
        with pytest.raises(UsageError, match="of queue T@broker-a:0"):
            _try(GroupSnapshot(tuple(T), ("c1",)), "lag-weighted", question={"options": options})


def test_a_plugins_strategy_runs_and_is_told_its_options() -> None:
    def last(queues: Sequence[MessageQueue], client_ids: Sequence[str], options: Mapping[str, Any]) -> Assignment:
        assert options == {"a": 1}
        return {client_ids[-1]: list(queues)}

    question = {"strategy": "last", "options": Options(custom={"a": 1})}
    (trial,) = _try(shape(1, 2, 2), custom={"last": last}, question=question)
    assert trial.outcome.strategy == "last"
    assert trial.outcome.idle == ("client-1",)


# A running group


def test_what_clients_really_hold_stands_before() -> None:
    trial = tried_once(sharing(AS_CIRCLE))
    assert trial.outcome.before == AS_CIRCLE
    assert trial.outcome.after == AS_AVERAGELY
    assert len(trial.outcome.moved) == 6


def test_the_groups_own_strategy_is_tried_unless_another_one_is_named() -> None:
    assert tried_once(sharing(AS_CIRCLE, strategy=CIRCLE)).outcome.strategy == "circle"
    assert tried_once(sharing(AS_CIRCLE, strategy=CIRCLE), "AVG").outcome.strategy == "averagely"


def test_nobody_online_and_clients_that_would_come() -> None:
    trial = tried_once(group_cluster({}), add_clients=(2,))
    assert (trial.outcome.before, _counts(trial.outcome.after)) == ({}, [4, 4])
    assert trial.match is None


def test_sticky_starts_from_what_clients_really_hold() -> None:
    (trial,) = tried(sharing(AS_CIRCLE, strategy=CIRCLE), "sticky", add_clients=("c4",))
    assert _counts(trial.outcome.after) == [2, 2, 2, 2]
    assert len(trial.outcome.moved) == 2


def test_lag_weighted_takes_the_lag_that_is_known() -> None:
    cluster = sharing({"c1": T[:4], "c2": T[4:]})
    cluster.brokers["broker-a"].offsets["G"]["T"][0] = 0
    (trial,) = tried(cluster, "lag-weighted")
    # 100 unread in one queue, 20 in each of the other seven.
    assert trial.outcome.balance.lag is not None
    assert (trial.outcome.balance.lag.least, trial.outcome.balance.lag.most) == (120, 120)


def test_lag_weighted_says_whose_work_it_does_not_know() -> None:
    cluster = sharing()
    del cluster.brokers["broker-b"].offsets["G"]["T"][3]
    (trial,) = tried(cluster, "lag-weighted")
    sentence = "The work in T@broker-b:3 is unknown: lag-weighted treats it as none."
    assert text_of(trial, "WEIGHTS_UNKNOWN") == sentence
    (told_nothing,) = _try(shape(1, 4, 2), "lag-weighted")
    assert text_of(told_nothing, "WEIGHTS_UNKNOWN").startswith("The work in all queues is unknown: ")
    assert "WEIGHTS_UNKNOWN" not in codes(tried_once(sharing(), "lag-weighted"))


def test_rates_weigh_when_they_were_measured() -> None:
    assert tried_once(sharing()).outcome.balance.rate is None
    measured = tried_once(sharing(), sample_s=1).outcome.balance.rate
    assert measured is not None
    assert (measured.least, measured.most) == (0, 0)


def test_new_queues_have_no_backlog_and_a_rate_that_nobody_knows() -> None:
    trial = tried_once(sharing(), sample_s=1, queues=QueueChange("+", 1))
    assert trial.outcome.balance.lag is not None
    assert trial.outcome.balance.reasons == {"rate": "NEW_QUEUE"}


def test_a_silent_client_is_taken_to_hold_what_the_strategy_gives() -> None:
    trial = tried_once(group_cluster({"c1": says(T[:4]), "c2": SILENCE}), remove_clients=("c1",))
    assert trial.outcome.before == {"c1": T[:4], "c2": T[4:]}
    assert [move.before for move in trial.outcome.moved] == [("c1",)] * 4


def test_a_strategy_that_only_the_clients_know_has_to_be_replaced() -> None:
    with pytest.raises(UsageError) as caught:
        tried_once(sharing(strategy="com.example.ByPrice@1"))
    assert caught.value.sentence == "The members use the strategy ByPrice. Unknown strategy 'ByPrice'."
    assert caught.value.hint is not None


def test_who_is_not_there_can_not_go() -> None:
    with pytest.raises(NotFoundError, match="Client c9 does not exist"):
        tried_once(sharing(), remove_clients=("c9",))
