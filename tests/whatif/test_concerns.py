"""What a running group's trial says beside its shares."""

from __future__ import annotations

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.whatif.changes import QueueChange, TrialChanges
from rmqctl.whatif.strategy_match import StrategyMatch
from rmqctl.whatif.trials import TrialRequest, try_all
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running, subscribed
from tests.scripted_peer import SILENCE

from .groups import (
    AS_AVERAGELY,
    AS_CIRCLE,
    CIRCLE,
    RETRY,
    T,
    codes,
    fetch,
    group_cluster,
    says,
    sharing,
    text_of,
    tried,
    tried_once,
)

MORE = QueueChange("+", 1)


def test_a_healthy_group_is_worth_no_word() -> None:
    assert codes(tried_once(sharing())) == []


def test_shares_of_another_strategy_are_named_with_what_they_look_like() -> None:
    trial = tried_once(sharing(AS_CIRCLE))
    assert codes(trial) == ["NOT_AS_COMPUTED"]
    text = text_of(trial, "NOT_AS_COMPUTED")
    assert ": c1, c2, c3. " in text
    assert text.endswith("Their queues match circle.")


def test_members_that_share_differently() -> None:
    members = {"c1": says(AS_AVERAGELY["c1"]), "c2": says(AS_CIRCLE["c2"], strategy=CIRCLE)}
    trial = tried_once(group_cluster(members))
    assert "Members allocate by averagely, circle: " in text_of(trial, "STRATEGIES_DIFFER")
    # Unknown strategy of the group that they could differ from.
    assert "NOT_AS_COMPUTED" not in codes(trial)
    assert trial.match is not None
    assert trial.match.as_computed is None
    assert trial.outcome.strategy == "averagely"


def test_a_silent_member() -> None:
    trial = tried_once(group_cluster({"c1": says(T[:4]), "c2": SILENCE}))
    assert text_of(trial, "SILENT_CLIENTS").startswith("c2 did not report")
    assert trial.outcome.before == {"c1": T[:4], "c2": T[4:]}


def test_two_clients_with_one_id() -> None:
    cluster = sharing()
    for broker in cluster.brokers.values():
        broker.groups["G"].addresses["c1"] = ["192.0.2.2:50000", "192.0.2.9:50001"]
    trial = tried_once(cluster)
    assert text_of(trial, "DUPLICATE_CLIENT_ID").startswith("Client id c1 is used twice: ")
    # Averagely gives the second place's share to nobody.
    assert "No client would consume T@broker-a:2, T@broker-a:3." in text_of(trial, "UNOWNED_QUEUES")


def test_brokers_that_name_different_members() -> None:
    cluster = sharing()
    members = dict(cluster.brokers["broker-a"].groups["G"].members)
    del members["c3"]
    cluster.brokers["broker-b"].groups["G"] = Group(members, ("T", RETRY))
    assert text_of(tried_once(cluster), "VIEWS_DIFFER") == (
        "Broker broker-b does not list c3: clients that ask it allocate without them."
    )


def test_a_broker_of_other_topics_need_not_name_a_client() -> None:
    a, c = BrokerState("broker-a"), BrokerState("broker-c")
    mine = {"c1": says(T[:4], topics=("T",)), "c2": says([MessageQueue("U", "broker-c", 0)], topics=("U",))}
    for broker, topic, client_id in ((a, "T", "c1"), (c, "U", "c2")):
        broker.topics[topic] = [Queue(100) for _ in range(4 if topic == "T" else 1)]
        broker.configured.add("G")
        broker.offsets["G"] = {topic: {0: 80, 1: 80, 2: 80, 3: 80}}
        broker.groups["G"] = Group({client_id: mine[client_id]}, (topic,))
    trial = tried_once(Cluster(a, c))
    assert codes(trial) == []
    assert trial.outcome.after == {"c1": T[:4], "c2": [MessageQueue("U", "broker-c", 0)]}


def test_a_broker_that_does_not_answer() -> None:
    cluster = sharing()
    cluster.stop("broker-b")
    trial = tried_once(cluster, remove_clients=("c3",))
    assert text_of(trial, "SILENT_BROKERS").startswith("No answer from broker-b: ")
    assert len(trial.snapshot.queues) == 8
    assert text_of(trial, "CONSUMED_TWICE_UNKNOWN").startswith("It is unknown how many messages of 2 moving queues ")


def test_proxies_may_have_members_behind_them() -> None:
    cluster = group_cluster({})
    cluster.brokers["broker-a"].groups["CID_DefaultHeartBeatSyncerTopic"] = Group({"proxy": says([])}, ())
    trial = tried_once(cluster, add_clients=("c1",))
    assert text_of(trial, "MEMBERS_UNSEEN").startswith("Proxies are connected: ")


U = [MessageQueue("U", f"broker-{name}", 0) for name in "ab"]


def _half_subscribed() -> Cluster:
    """Return a group of which c2 alone subscribes to U, so that c1's share of U is nobody's."""
    cluster = sharing({"c1": T[:4], "c2": T[4:]})
    for broker in cluster.brokers.values():
        broker.topics["U"] = [Queue(5)]
        group = broker.groups["G"]
        group.topics = ("T", "U", RETRY)
        group.members["c2"] = says([*T[4:], U[1]], topics=("T", "U"))
    return cluster


def test_a_member_that_does_not_subscribe_to_a_topic() -> None:
    trial = tried_once(_half_subscribed())
    assert text_of(trial, "NOT_SUBSCRIBED") == "Not subscribed to U, so that their share of it is not consumed: c1."


def test_the_share_of_a_member_that_does_not_subscribe_is_nobody_s() -> None:
    outcome = tried_once(_half_subscribed()).outcome
    assert outcome.after == {"c1": T[:4], "c2": [*T[4:], U[1]]}
    assert (outcome.moved, outcome.unowned) == ((), (U[0],))
    assert [client.gained for client in outcome.clients] == [(), ()]
    # Who comes is taken to subscribe as the others do: it counts, and consumes its share.
    later = tried_once(_half_subscribed(), add_clients=("c0",)).outcome
    assert later.unowned == (U[1],)
    assert [(move.mq, move.before, move.after) for move in later.moved if move.mq.topic == "U"] == [
        (U[0], (), ("c0",)),
        (U[1], ("c2",), ()),
    ]


def test_a_topic_that_no_member_subscribes_to_tells_nothing_of_how_they_share() -> None:
    cluster = sharing()
    for broker in cluster.brokers.values():
        broker.topics["U"] = [Queue(5) for _ in range(4)]
    question = TrialRequest(fetch(cluster, "U").snapshot)
    (trial,) = try_all([question], TrialChanges(add_clients=("c4",)), (), {}, custom={}, resolvers={})
    assert trial.match == StrategyMatch(None, (), (), is_subscribed=False)
    # It moves from those who would have it, not from nobody.
    assert len(trial.outcome.moved) < len(question.snapshot.queues)
    assert all(move.before for move in trial.outcome.moved)
    assert (
        text_of(trial, "NOT_SUBSCRIBED")
        == "Not subscribed to U, so that their share of it is not consumed: c1, c2, c3."
    )


def test_a_strategy_that_nobody_here_knows_is_told_and_others_can_be_tried() -> None:
    cluster = sharing(AS_CIRCLE, strategy="com.example.ByPrice@1")
    trial = tried_once(cluster, "circle")
    assert "Unknown strategy 'ByPrice'." in text_of(trial, "OWN_STRATEGY_UNKNOWN")
    assert trial.match is not None
    assert (trial.match.as_computed, trial.match.matching) == (None, ("circle",))
    # What they hold is known all the same.
    assert trial.outcome.moved == ()


def test_members_that_do_not_say_how_they_share() -> None:
    trial = tried_once(sharing(strategy=""))
    assert codes(trial) == ["STRATEGY_UNTOLD"]
    assert trial.outcome.strategy == "averagely"


def test_what_is_tried_does_not_stand_for_what_members_do_not_say() -> None:
    trial = tried_once(sharing(AS_CIRCLE, strategy=""), "circle")
    assert codes(trial) == ["STRATEGY_UNTOLD", "NOT_AS_COMPUTED"]
    members = {client_id: says(AS_AVERAGELY[client_id], strategy="") for client_id in ("c1", "c2")}
    for trial in tried(group_cluster({**members, "c3": SILENCE}), "averagely", "circle"):
        assert trial.outcome.before == AS_AVERAGELY


# Retries


@pytest.mark.parametrize("orderly", ["true", "false"])
def test_members_of_one_mode_are_no_trouble(orderly: str) -> None:
    assert "ORDERLY_MIXED" not in codes(tried_once(sharing(PROP_CONSUMEORDERLY=orderly)))


def test_orderly_and_concurrent_members_lose_retries() -> None:
    members = {
        "c1": says(T[:4], PROP_CONSUMEORDERLY="true"), "c2": says(T[4:], PROP_CONSUMEORDERLY="false"),
    }  # fmt: skip
    assert "5.1.1" in text_of(tried_once(group_cluster(members)), "ORDERLY_MIXED")


def test_no_retry_queues() -> None:
    cluster = sharing()
    cluster.brokers["broker-b"].group_configs["G"] = {"retryQueueNums": 0}
    text = "The group has no retry queues at broker-b: failed messages there are acknowledged and lost."
    assert text_of(tried_once(cluster), "NO_RETRY_QUEUES") == text


# Popping


def test_members_that_pop_share_as_brokers_do() -> None:
    pops = {MessageQueue("T", name, -1): 0 for name in ("broker-a", "broker-b")}
    trial = tried_once(group_cluster({"c1": says([], pops=pops), "c2": says([], pops=pops)}))
    assert trial.outcome.strategy == "pop-share"
    assert trial.match is not None
    assert trial.match.as_computed is True
    assert trial.outcome.moved == trial.outcome.unowned == ()
    assert "POPPING" not in codes(trial)
    # Retry topics are pulled from, by whoever averagely gives them to.
    retry = MessageQueue(RETRY, "broker-a", 0)
    cluster = group_cluster({"c1": says([retry], pops=pops), "c2": says([], pops=pops)})
    cluster.brokers["broker-a"].topics[RETRY] = [Queue()]
    with_retry = tried_once(cluster)
    assert with_retry.match is not None
    assert with_retry.match.as_computed is True
    assert [retry in share for share in with_retry.outcome.after.values()] == [True, False]
    by_hand = tried_once(group_cluster({"c1": says([], pops=pops)}, consume_type="CONSUME_POP"), "averagely")
    assert "POPPING" in codes(by_hand)


def test_members_that_pop_do_not_decide_how_others_share() -> None:
    queues = [MessageQueue("T", name, number) for name in ("broker-a", "broker-b") for number in range(4)]
    pops = dict.fromkeys(queues[:4], 0)
    trial = tried_once(group_cluster({"c1": says([], pops=pops), "c2": says(queues[4:])}, consume_type="CONSUME_POP"))
    assert trial.outcome.strategy == "averagely"
    assert trial.match is not None
    assert trial.match.differing == ()
    assert text_of(trial, "POPS_AND_PULLS").startswith("c1 pops")


# What a change costs


def _in_flight() -> Cluster:
    cluster = sharing()
    for broker in cluster.brokers.values():
        for queue_id in range(4):
            broker.pulls["G", "T", queue_id] = 90
    return cluster


def test_messages_in_flight_in_queues_that_move_could_be_consumed_twice() -> None:
    trial = tried_once(_in_flight(), remove_clients=("c3",))
    assert [str(move.mq) for move in trial.outcome.moved] == ["T@broker-a:3", "T@broker-b:2", "T@broker-b:3"]
    assert [move.duplicate_risk for move in trial.outcome.moved] == [10, 10, 10]
    assert text_of(trial, "CONSUMED_TWICE").startswith("Up to 30 messages ")


def test_what_nobody_can_tell_is_said_as_unknown() -> None:
    cluster = _in_flight()
    cluster.brokers["broker-b"].offsets["G"]["T"] = {0: 80, 1: 80, 2: 80}
    trial = tried_once(cluster, remove_clients=("c3",))
    assert [move.duplicate_risk for move in trial.outcome.moved] == [10, 10, None]
    assert text_of(trial, "CONSUMED_TWICE_UNKNOWN").startswith("It is unknown how many messages of 1 moving queue ")


def test_a_moved_queue_that_was_never_committed_starts_at_its_end() -> None:
    cluster = sharing()
    cluster.brokers["broker-b"].offsets["G"]["T"] = {0: 80, 1: 80, 2: 80}
    text = text_of(tried_once(cluster, remove_clients=("c3",)), "MOVED_QUEUES_START_LAST")
    assert text.startswith("No offset is stored for T@broker-b:3: ")
    # It stays where it is without the change, and FIRST skips nothing.
    assert "MOVED_QUEUES_START_LAST" not in codes(tried_once(cluster))
    for broker in cluster.brokers.values():
        broker.groups["G"].consume_from_where = "CONSUME_FROM_FIRST_OFFSET"
    assert "MOVED_QUEUES_START_LAST" not in codes(tried_once(cluster, remove_clients=("c3",)))


@pytest.mark.parametrize(
    ("where", "is_said"),
    [
        ("CONSUME_FROM_LAST_OFFSET", True), ("CONSUME_FROM_FIRST_OFFSET", False), ("CONSUME_FROM_TIMESTAMP", False),
    ],
)  # fmt: skip
def test_new_queues_start_where_the_clients_say(where: str, is_said: bool) -> None:
    cluster = sharing()
    for broker in cluster.brokers.values():
        broker.groups["G"].consume_from_where = where
    trial = tried_once(cluster, queues=MORE)
    assert ("NEW_QUEUES_START_LAST" in codes(trial)) is is_said
    if is_said:
        text = text_of(trial, "NEW_QUEUES_START_LAST")
        assert text.startswith("2 new queues would start at the end: ")
        assert "50 s" in text


def test_where_brokers_disagree_on_the_start_that_is_said() -> None:
    cluster = sharing()
    cluster.brokers["broker-b"].groups["G"].consume_from_where = "CONSUME_FROM_FIRST_OFFSET"
    assert "if the clients start there" in text_of(tried_once(cluster, queues=MORE), "NEW_QUEUES_START_LAST")


def test_unread_messages_of_a_broker_that_goes() -> None:
    text = "80 messages in removed queues are not consumed yet."
    assert text_of(tried_once(sharing(), remove_brokers=("broker-b",)), "UNREAD_IN_REMOVED_QUEUES") == text
    cluster = sharing()
    del cluster.brokers["broker-b"].offsets["G"]["T"][3]
    text = text_of(tried_once(cluster, remove_brokers=("broker-b",)), "UNREAD_IN_REMOVED_QUEUES")
    assert text.startswith("At least 60 messages ")
    read = sharing()
    read.brokers["broker-b"].offsets["G"]["T"] = dict.fromkeys(range(4), 100)
    assert "UNREAD_IN_REMOVED_QUEUES" not in codes(tried_once(read, remove_brokers=("broker-b",)))


def test_orderly_queues_of_clients_that_go_stall_and_others_wait_for_their_owner() -> None:
    trial = tried_once(sharing(PROP_CONSUMEORDERLY="true"), remove_clients=("c3",))
    assert text_of(trial, "ORDERLY_QUEUES_STALL").startswith("2 orderly queues of clients that leave: ")
    assert "60 s" in text_of(trial, "ORDERLY_QUEUES_STALL")
    assert text_of(trial, "ORDERLY_QUEUES_MOVE").startswith("1 orderly queue would move between clients: ")
    assert not {"ORDERLY_QUEUES_STALL", "ORDERLY_QUEUES_MOVE"} & set(
        codes(tried_once(sharing(), remove_clients=("c3",)))
    )
    joined = codes(tried_once(sharing(PROP_CONSUMEORDERLY="true"), add_clients=("c4",)))
    assert "ORDERLY_QUEUES_STALL" not in joined
    assert "ORDERLY_QUEUES_MOVE" in joined


# Advice


def test_more_clients_than_queues_leaves_some_idle() -> None:
    text = text_of(tried_once(sharing(), add_clients=(6,)), "IDLE_CLIENTS")
    assert text == "1 client would have no queues: ~new-6."


def test_names_that_are_not_known_decide_what_moves() -> None:
    trial = tried_once(sharing(AS_CIRCLE, strategy=CIRCLE), add_clients=(1,))
    assert (len(trial.outcome.moved), trial.most_moved_count) == (5, 8)
    assert "8 queues would move if they sorted first." in text_of(trial, "NEW_IDS_UNKNOWN")
    named = tried_once(sharing(), add_clients=("c4",))
    assert (named.most_moved_count, "NEW_IDS_UNKNOWN" in codes(named)) == (None, False)


def test_consistent_hashing_is_advised_against() -> None:
    assert "HARD_TO_TRACE" in codes(tried_once(sharing(), "consistent-hash"))


def test_long_lists_are_cut_short() -> None:
    members = {f"c{number}": SILENCE for number in range(5)}
    members["c5"] = running({("T", "broker-a", 0): held(commit=1)}, subscriptions=[subscribed("T")])
    text = text_of(tried_once(group_cluster(members)), "SILENT_CLIENTS")
    assert text.startswith("c0, c1, c2 and 2 more did not report")
