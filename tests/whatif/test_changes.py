from __future__ import annotations

import pytest

from rmqctl.errors import NotFoundError, RmqctlError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.whatif.changes import (
    FIRST,
    LAST,
    QueueChange,
    TrialChanges,
    apply_changes,
    parse_names_or_count,
    parse_queue_change,
)
from rmqctl.whatif.group_snapshot import GroupSnapshot
from rmqctl.whatif.sized_group import shape

SCENE = GroupSnapshot(
    tuple(MessageQueue(topic, f"broker-{name}", queue_id) for topic in "TU" for name in "ab" for queue_id in range(2)),
    ("c2", "c1", "c3"),
)


def _ids(**changes: object) -> list[str]:
    return sorted(apply_changes(SCENE, TrialChanges(**changes)).client_ids)  # type: ignore[arg-type]


def _queues(topic: str = "T", snapshot: GroupSnapshot = SCENE, **changes: object) -> list[str]:
    after = apply_changes(snapshot, TrialChanges(**changes)).queues  # type: ignore[arg-type]
    return [f"{mq.broker_name.removeprefix('broker-')}{mq.queue_id}" for mq in after if mq.topic == topic]


@pytest.mark.parametrize(
    ("text", "sign", "count"),
    [("+4", "+", 4), ("-2", "-", 2), ("=16", "=", 16), (" +0 ", "+", 0), ("=999999", "=", 999999)],
)  # fmt: skip
def test_a_change_of_queues_is_a_sign_and_a_number(text: str, sign: str, count: int) -> None:
    change = parse_queue_change(text)
    assert (change.sign, change.count) == (sign, count)


@pytest.mark.parametrize("text", ["", "4x", "++4", "+-4", "+", "+1000000", "=1.5", "+٤", "4", "+4 5", "all"])
def test_what_is_no_change_of_queues_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_queue_change(text)
    assert caught.value.sentence == f"Invalid --queues {text!r}."
    assert caught.value.hint == "Use for example +4, -2 or =16, for each broker."


@pytest.mark.parametrize(
    ("sign", "count", "before", "after"),
    [
        ("+", 2, [0, 1], [0, 1, 2, 3]), ("+", 1, [0, 3], [0, 3, 4]), ("-", 1, [1, 0], [0]), ("-", 5, [0, 1], []),
        ("=", 3, [0], [0, 1, 2]), ("=", 1, [0, 1, 2], [0]), ("=", 0, [0], []), ("+", 0, [0, 1], [0, 1]),
    ],
)  # fmt: skip
def test_queues_come_and_go_at_the_end(sign: str, count: int, before: list[int], after: list[int]) -> None:
    assert QueueChange(sign, count).apply(before) == after  # type: ignore[arg-type]


def test_words_are_names_or_a_number_of_things_without_one() -> None:
    assert parse_names_or_count("--add-clients", ["2", "c9", "007", "10.0.0.7@41#9"]) == (2, "c9", 7, "10.0.0.7@41#9")


@pytest.mark.parametrize("word", ["0", "000", "1000001", "9" * 5000])
def test_a_number_that_nobody_means_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="the number must be 1 to 1000000"):
        parse_names_or_count("--add-clients", [word])


@pytest.mark.parametrize("word", ["", "  "])
def test_an_empty_word_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--add-clients has neither a name nor a number"):
        parse_names_or_count("--add-clients", [word])


def test_clients_come_by_name_or_sort_last() -> None:
    assert _ids(add_clients=("c0",)) == ["c0", "c1", "c2", "c3"]
    assert _ids(add_clients=(2,)) == ["c1", "c2", "c3", "~new-1", "~new-2"]
    assert _ids(add_clients=(1, "c9", 1))[3:] == ["c9", "~new-1", "~new-2"]
    assert _ids(add_clients=(10,))[-2:] == ["~new-09", "~new-10"]
    assert _ids(add_clients=(1,), new_prefix=FIRST)[0] == "!new-1"
    # No name is given twice, whoever comes first.
    assert _ids(add_clients=("~new-1", 2))[3:] == ["~new-1", "~new-2", "~new-3"]
    assert _ids(add_clients=(1, "~new-1"))[3:] == ["~new-1", "~new-2"]


def test_clients_go_by_name_or_the_last_of_them() -> None:
    assert _ids(remove_clients=("c2",)) == ["c1", "c3"]
    assert _ids(remove_clients=(2,)) == ["c1"]
    assert _ids(remove_clients=("c1", 1)) == ["c2"]
    assert _ids(remove_clients=(3,), add_clients=("d",)) == ["d"]


def test_of_two_clients_with_one_id_one_goes() -> None:
    twice = GroupSnapshot(SCENE.queues, ("c1", "c1", "c2"))
    assert apply_changes(twice, TrialChanges(remove_clients=("c1",))).client_ids == ("c1", "c2")


def test_queues_change_at_each_broker_and_topic_alike() -> None:
    more = QueueChange("+", 1)
    assert _queues(queues=more) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert _queues("U", queues=more) == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_brokers_come_with_as_many_queues_as_the_largest() -> None:
    uneven = GroupSnapshot((*SCENE.queues, MessageQueue("T", "broker-a", 2)), SCENE.client_ids)
    come = _queues(snapshot=uneven, add_brokers=("broker-c",))
    assert sorted(come) == ["a0", "a1", "a2", "b0", "b1", "c0", "c1", "c2"]
    names = {mq.broker_name for mq in apply_changes(SCENE, TrialChanges(add_brokers=(2,))).queues}
    assert names == {"broker-a", "broker-b", f"{LAST}new-broker-1", f"{LAST}new-broker-2"}
    assert "!new-broker-1" in {
        mq.broker_name for mq in apply_changes(SCENE, TrialChanges(add_brokers=(1,), new_prefix=FIRST)).queues
    }


def test_a_new_broker_gets_the_changed_number_of_queues() -> None:
    assert _queues(add_brokers=("broker-c",), queues=QueueChange("=", 1)) == ["a0", "b0", "c0"]


def test_a_broker_goes_with_its_queues() -> None:
    assert _queues(remove_brokers=("broker-a",)) == ["b0", "b1"]


def test_a_broker_can_come_for_the_only_one_of_a_topic() -> None:
    one = shape(1, 2, 1)
    after = apply_changes(one, TrialChanges(remove_brokers=("broker-1",), add_brokers=("broker-2",)))
    assert [(mq.broker_name, mq.queue_id) for mq in after.queues] == [("broker-2", 0), ("broker-2", 1)]


def test_retry_topics_keep_their_queues_and_go_with_their_broker() -> None:
    retry = GroupSnapshot((*SCENE.queues, MessageQueue("%RETRY%G", "broker-a", 0)), SCENE.client_ids)
    assert _queues("%RETRY%G", retry, queues=QueueChange("=", 8)) == ["a0"]
    assert _queues("%RETRY%G", retry, remove_brokers=("broker-a",)) == []


def test_nothing_changes_without_changes() -> None:
    assert TrialChanges().is_nothing
    assert not TrialChanges(queues=QueueChange("+", 0)).is_nothing
    after = apply_changes(SCENE, TrialChanges())
    assert (set(after.queues), sorted(after.client_ids)) == (set(SCENE.queues), sorted(SCENE.client_ids))


@pytest.mark.parametrize(("changes", "is_unnamed"), [
    ({"add_clients": (1,)}, True), ({"add_brokers": (1,)}, True), ({"add_clients": ("c9",)}, False),
    ({"remove_clients": (1,)}, False),
])  # fmt: skip
def test_what_comes_by_number_has_no_name(changes: dict[str, tuple[str | int, ...]], is_unnamed: bool) -> None:
    assert TrialChanges(**changes).has_unnamed is is_unnamed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"remove_clients": (4,)}, UsageError, "--remove-clients 4: there are only 3."),
        ({"remove_clients": (2, 2)}, UsageError, "--remove-clients 2: there is only 1."),
        ({"remove_clients": ("c4",)}, NotFoundError, "Client c4 does not exist."),
        ({"remove_clients": ("c1", "c1")}, NotFoundError, "Client c1 does not exist."),
        ({"remove_clients": (3,)}, UsageError, "No client would be left."),
        ({"add_clients": ("c1",)}, UsageError, "--add-clients c1: this client already exists."),
        ({"add_clients": ("c9", "c9")}, UsageError, "--add-clients c9: this client already exists."),
        ({"remove_brokers": ("broker-x",)}, NotFoundError, "Broker broker-x does not exist."),
        ({"remove_brokers": ("broker-a", "broker-b")}, UsageError, "No queue would be left."),
        ({"add_brokers": ("broker-a",)}, UsageError, "--add-brokers broker-a: this broker already exists."),
        ({"add_brokers": ("c", "c")}, UsageError, "--add-brokers c: this broker already exists."),
        ({"queues": QueueChange("=", 0)}, UsageError, "No queue would be left."),
        ({"queues": QueueChange("-", 9)}, UsageError, "No queue would be left."),
    ],
)
def test_what_can_not_be_is_refused_with_its_name(
    changes: dict[str, object], error: type[RmqctlError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        apply_changes(SCENE, TrialChanges(**changes))  # type: ignore[arg-type]
    assert caught.value.sentence == sentence


def test_queue_ids_end_where_javas_numbers_do() -> None:
    last = GroupSnapshot((MessageQueue("T", "broker-a", 2**31 - 2),), ("c1",))
    assert len(apply_changes(last, TrialChanges(queues=QueueChange("+", 1))).queues) == 2
    with pytest.raises(UsageError, match=r"--queues \+2: there are not enough ids after queue 2147483646\."):
        apply_changes(last, TrialChanges(queues=QueueChange("+", 2)))


def test_an_unknown_name_gets_a_suggestion() -> None:
    for changes, like in (({"remove_clients": ("c11",)}, "c1"), ({"remove_brokers": ("broker-aa",)}, "broker-a")):
        with pytest.raises(NotFoundError) as caught:
            apply_changes(SCENE, TrialChanges(**changes))  # type: ignore[arg-type]
        assert caught.value.suggestions[0] == like


@pytest.mark.parametrize(
    "changes",
    [
        {"add_clients": (1_000_000,)}, {"add_clients": (600_000, 600_000)}, {"add_brokers": (1_000_000,)},
        {"add_brokers": (600_000, 600_000)}, {"queues": QueueChange("=", 999_999)},
        {"add_brokers": (1000,), "queues": QueueChange("+", 999_999)},
    ],
)  # fmt: skip
def test_more_than_a_machine_can_hold_is_refused_before_it_is_made(changes: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"would give \d+ (clients|queues|brokers): at most 1000000"):
        apply_changes(SCENE, TrialChanges(**changes))  # type: ignore[arg-type]
