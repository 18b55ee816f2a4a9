"""What must hold whatever the queues and clients are."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Assignment, Options, find_strategy, sort_client_ids, sort_queues

_SITES = ("IDC1", "IDC2", "IDC3")
_NAMES = st.builds("{}-{}".format, st.sampled_from(_SITES), st.text("abc\ue000\U0001f600", min_size=1, max_size=3))
_QUEUES = st.lists(
    st.builds(MessageQueue, st.sampled_from(("T", "U")), _NAMES, st.integers(0, 9)),
    min_size=1,
    max_size=40,
    unique=True,
)
_CLIENTS = st.lists(_NAMES, min_size=1, max_size=12, unique=True)
_EACH_QUEUE_ONCE = ("averagely", "circle", "consistent-hash", "machine-room-nearby", "sticky", "lag-weighted")
_SHARED_BY_COUNT = ("averagely", "circle", "sticky")

each = pytest.mark.parametrize("name", _EACH_QUEUE_ONCE)


def _counts(assignment: Assignment) -> list[int]:
    return [len(share) for share in assignment.values()]


@each
@given(queues=_QUEUES, clients=_CLIENTS, weight=st.integers(0, 1000))
def test_every_queue_has_exactly_one_owner(
    name: str, queues: list[MessageQueue], clients: list[str], weight: int
) -> None:
    weights = {queue: float(weight * index) for index, queue in enumerate(queues)}
    allocate = find_strategy(name, Options(weights=weights, previous={clients[0]: queues})).allocate
    assignment = allocate(sort_queues(queues), sort_client_ids(clients))
    assert Counter(chain.from_iterable(assignment.values())) == Counter(queues)
    assert sorted(assignment) == sorted(clients)


@each
@given(queues=_QUEUES, clients=_CLIENTS, data=st.data())
def test_the_order_in_which_they_come_does_not_matter(
    name: str, queues: list[MessageQueue], clients: list[str], data: st.DataObject
) -> None:
    weights = {queue: float(len(queue.broker_name)) for queue in queues}
    allocate = find_strategy(name, Options(weights=weights, previous={clients[-1]: queues[:5]})).allocate
    shuffled = data.draw(st.permutations(queues)), data.draw(st.permutations(clients))
    one = allocate(sort_queues(queues), sort_client_ids(clients))
    other = allocate(sort_queues(shuffled[0]), sort_client_ids(shuffled[1]))
    assert one == other


@pytest.mark.parametrize("name", _SHARED_BY_COUNT)
@given(queues=_QUEUES, clients=_CLIENTS)
def test_nobody_has_more_than_one_queue_above_another(
    name: str, queues: list[MessageQueue], clients: list[str]
) -> None:
    allocate = find_strategy(name, Options(previous={clients[0]: queues})).allocate
    counts = _counts(allocate(sort_queues(queues), sort_client_ids(clients)))
    assert max(counts) - min(counts) <= 1


@given(queues=_QUEUES, before=_CLIENTS, after=_CLIENTS)
def test_sticky_moves_as_little_as_the_balance_allows(
    queues: list[MessageQueue], before: list[str], after: list[str]
) -> None:
    first = find_strategy("averagely").allocate(sort_queues(queues), sort_client_ids(before))
    second = find_strategy("sticky", Options(previous=first)).allocate(sort_queues(queues), sort_client_ids(after))
    kept = sum(len(set(second[client]) & set(first.get(client, ()))) for client in after)
    size, over = divmod(len(queues), len(after))
    held = sorted((len(first.get(client, ())) for client in after), reverse=True)
    assert kept == sum(min(count, size + (index < over)) for index, count in enumerate(held))
    again = find_strategy("sticky", Options(previous=second)).allocate(sort_queues(queues), sort_client_ids(after))
    assert again == second


@given(queues=_QUEUES, clients=_CLIENTS, data=st.data())
def test_work_is_shared_to_within_one_queue_of_the_mean(
    queues: list[MessageQueue], clients: list[str], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.integers(0, 10**9), min_size=len(queues), max_size=len(queues)))
    weights = dict(zip(queues, map(float, drawn), strict=True))
    assignment = find_strategy("lag-weighted", Options(weights=weights)).allocate(queues, clients)
    loads = [sum(weights[queue] for queue in share) for share in assignment.values()]
    # What a queue without work counts is a hundredth of the mean.
    slack = sum(drawn) / 100 + 1
    assert max(loads) <= sum(drawn) / len(clients) + max(drawn) + slack


def test_queues_without_work_are_shared_by_number() -> None:
    queues = [MessageQueue("T", "a", queue_id) for queue_id in range(30)]
    assignment = find_strategy("lag-weighted").allocate(queues, ["c1", "c2", "c3"])
    assert _counts(assignment) == [10, 10, 10]
    weights = {queues[0]: 1000.0, queues[1]: 1000.0}
    counts = _counts(find_strategy("lag-weighted", Options(weights=weights)).allocate(queues, ["c1", "c2", "c3"]))
    assert sorted(counts) == [1, 1, 28]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_is_no_amount_of_work_is_refused(weight: float) -> None:
    queue = MessageQueue("T", "broker-a", 3)
    with pytest.raises(AllocationError, match=r"queue T@broker-a:3"):
        find_strategy("lag-weighted", Options(weights={queue: weight})).allocate([queue], ["c"])


@given(queues=_QUEUES, clients=_CLIENTS, name=_NAMES)
def test_consistent_hashing_moves_only_what_the_newcomer_takes(
    queues: list[MessageQueue], clients: list[str], name: str
) -> None:
    allocate = find_strategy("consistent-hash").allocate
    before, after = allocate(queues, clients), allocate(queues, [*clients, f"{name}-new"])
    for client in clients:
        assert set(after[client]) <= set(before[client])


def test_java_sorts_texts_by_utf_16_units() -> None:
    # Above the basic plane a text starts with a surrogate, which is below U+E000.
    assert sort_client_ids(["\ue000", "\U0001f600", "z"]) == ["z", "\U0001f600", "\ue000"]
    queues = [MessageQueue("T", broker_name, 0) for broker_name in ("\ue000", "\U0001f600")]
    assert sort_queues(queues) == queues[::-1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("AVG", "averagely"), ("AVG_BY_CIRCLE", "circle"), ("MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", "machine-room-nearby"),
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash", "consistent-hash"),
        ("POP_SHARE", "pop-share"),
    ],
)  # fmt: skip
def test_rocketmqs_names_are_understood(name: str, expected: str) -> None:
    assert find_strategy(name).name == expected


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("avergely", Options(), "Unknown strategy 'avergely'."),
        ("x", Options(), "Unknown strategy 'x'."),
        ("config", Options(), "The strategy config needs the queues of each client."),
        ("config", Options(configured=()), "The strategy config needs the queues of each client."),
        ("config", Options(configured={}), "The strategy config needs the queues of each client."),
        ("machine-room", Options(), "The strategy machine-room needs the rooms."),
        ("machine-room-nearby", Options(inner="config"), "Strategy 'config' cannot be used within another strategy."),
        ("MACHINE_ROOM_NEARBY-MINE", Options(), "Strategy 'MINE' cannot be used within another strategy."),
        ("MACHINE_ROOM_NEARBY-", Options(), "Strategy '' cannot be used within another strategy."),
        (
            "MACHINE_ROOM_NEARBY-MACHINE_ROOM_NEARBY-AVG", Options(),
            "Strategy 'MACHINE_ROOM_NEARBY-AVG' cannot be used within another strategy.",
        ),
        ("averagely/circle", Options(), "Unknown strategy 'averagely/circle'."),
    ],
)  # fmt: skip
def test_what_can_not_be_run_is_said(name: str, options: Options, says: str) -> None:
    with pytest.raises(AllocationError) as caught:
        find_strategy(name, options)
    assert str(caught.value) == says


def test_a_name_without_end_is_refused() -> None:
    # Clients' words reach it too, and any client can say anything.
    with pytest.raises(AllocationError, match="cannot be used within another strategy"):
        find_strategy("MACHINE_ROOM_NEARBY-" * 5000)


def test_a_name_without_a_room_is_named() -> None:
    nearby = find_strategy("machine-room-nearby")
    with pytest.raises(AllocationError, match="room of client -c1"):
        nearby.allocate([MessageQueue("T", "IDC1-a", 0)], ["-c1"])
    resolved = find_strategy("machine-room-nearby", Options(broker_site=lambda _: None))
    with pytest.raises(AllocationError, match="room of broker IDC1-a"):
        resolved.allocate([MessageQueue("T", "IDC1-a", 0)], ["IDC1-c1"])


def test_each_client_has_the_queues_that_it_was_told() -> None:
    queues = [MessageQueue("T", "a", queue_id) for queue_id in range(3)]
    told = {"c1": queues[:1], "c2": queues[1:]}
    assert find_strategy("config", Options(configured=told)).allocate(queues, ["c1", "c2", "c3"]) == {**told, "c3": []}
    with pytest.raises(AllocationError, match="client c2"):
        find_strategy("config", Options(configured=told)).allocate(queues, ["c1"])


def test_a_plugins_strategy_gets_its_options() -> None:
    def first(queues: object, clients: object, options: object) -> Assignment:
        assert options == {"room": "IDC1"}
        return {clients[0]: list(queues)}  # type: ignore[index, call-overload]

    queue = MessageQueue("T", "a", 0)
    strategy = find_strategy("first", Options(custom={"room": "IDC1"}), {"first": first})
    assert strategy.allocate([queue], ["c"]) == {"c": [queue]}
