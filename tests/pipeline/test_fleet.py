"""Groups of snapshots, tried: by hand, and as what-if has it for the same group while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.fleet_whatif.fleet import (
    CHANGES,
    STRATEGIES,
    HeldGroup,
    NamedChange,
    QueueRow,
    SkippedGroup,
    SkipReason,
    parse_change,
    read_group,
    strategy_name,
    try_group,
)
from rmqctl.whatif.changes import QueueChange, TrialChanges
from tests.whatif.groups import AS_AVERAGELY, AS_CIRCLE, T, fetch, sharing, tried


@pytest.mark.parametrize(
    ("text", "name", "changes"),
    [
        ("none", "none", TrialChanges()),
        ("+1 client", "+1 client", TrialChanges(add_clients=(1,))),
        (" +02  clients ", "+2 clients", TrialChanges(add_clients=(2,))),
        ("-1client", "-1 client", TrialChanges(remove_clients=(1,))),
        ("+client:c9", "+client:c9", TrialChanges(add_clients=("c9",))),
        ("-client:10.0.0.7@41#9", "-client:10.0.0.7@41#9", TrialChanges(remove_clients=("10.0.0.7@41#9",))),
        ("-client:9", "-client:9", TrialChanges(remove_clients=("9",))),
        ("+1 broker", "+1 broker", TrialChanges(add_brokers=(1,))),
        ("-broker:broker-b", "-broker:broker-b", TrialChanges(remove_brokers=("broker-b",))),
        ("queues +4", "queues+4", TrialChanges(queues=QueueChange("+", 4))),
        ("queues=16", "queues=16", TrialChanges(queues=QueueChange("=", 16))),
        (
            "-broker:a and +2 clients and -client:band and queues-1",
            "-broker:a and +2 clients and -client:band and queues-1",
            TrialChanges(
                add_clients=(2,), remove_clients=("band",), remove_brokers=("a",), queues=QueueChange("-", 1)
            ),
        ),
    ],
)  # fmt: skip
def test_changes_in_words(text: str, name: str, changes: TrialChanges) -> None:
    assert parse_change(text) == NamedChange(name, changes)
    assert parse_change(name) == NamedChange(name, changes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Invalid change ''."),
        ("1 client", "change '1 client'."),
        ("+1 queue", "change '+1 queue'."),
        ("+1 client none", "change '+1 client none'."),
        ("none and +1 client", "change 'none and +1 client'."),
        ("+client:", "change '+client:'."),
        ("queues4", "change 'queues4'."),
        ("+\u0661 client", "Invalid change '+\u0661 client'."),
        ("-1 broker", "The change '-1 broker' does not name the broker"),
        ("queues+1 and queues+2", "changes the number of queues twice."),
        ("+0 clients", "the number must be 1 to 1000000."),
        ("+99999999 clients", "the number must be 1 to 1000000."),
    ],
)
def test_words_that_are_no_change(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_change(text)
    assert sentence in caught.value.sentence


def test_names_of_strategies() -> None:
    words = ["AVG", "AllocateMessageQueueAveragelyByCircle", "sticky", "MACHINE_ROOM_NEARBY-AVG", "nonsense"]
    assert [strategy_name(word) for word in words] == [
        "averagely", "circle", "sticky", "MACHINE_ROOM_NEARBY-AVG", "nonsense",
    ]  # fmt: skip


def _row(mq: MessageQueue, client_id: str | None, *, lag: int | None = 0, is_held: bool | None = True) -> QueueRow:
    return QueueRow(mq, lag, client_id, is_held)


def _read(*rows: QueueRow) -> HeldGroup:
    group = read_group(rows)
    assert isinstance(group, HeldGroup)
    return group


@pytest.mark.parametrize(
    ("last", "reason", "fact"),
    [
        (_row(T[1], None, is_held=None), SkipReason.OWNERS_UNKNOWN, "held 1 of its 2 queues"),
        (_row(T[1], None, is_held=True), SkipReason.SEVERAL_OWNERS, "Several clients held 1 of its 2 queues"),
    ],
)
def test_groups_are_not_guessed(last: QueueRow, reason: SkipReason, fact: str) -> None:
    skipped = read_group([_row(T[0], "c1"), last])
    assert isinstance(skipped, SkippedGroup)
    assert skipped.reason is reason
    assert fact in skipped.text


def test_nobody_to_share() -> None:
    nobody = SkippedGroup(SkipReason.NO_OWNERS, "No client held any of its queues.")
    assert read_group([_row(mq, None, is_held=False) for mq in T]) == nobody
    assert read_group([]) == nobody


def test_a_topic_that_nobody_holds_is_left_out_and_a_queue_that_nobody_holds_is_not() -> None:
    old = MessageQueue("Old", "broker-a", 0)
    group = _read(_row(T[0], "c1", lag=5), _row(T[1], None, is_held=False, lag=7), _row(old, None, is_held=False))
    assert set(group.snapshot.queues) == {T[0], T[1]}
    assert (group.snapshot.client_ids, group.owners) == (("c1",), {T[0]: "c1"})
    (row,) = try_group(group, ["averagely"], [parse_change("none")])
    # c1 takes the queue that was nobody's.
    assert (row["queue_count"], row["most_queues"], row["moved_count"], row["lag_messages"]) == (2, 2, 1, 12)


def test_a_queue_that_stands_twice_counts_once() -> None:
    once = [_row(mq, "c1" if mq in T[:4] else "c2", lag=3) for mq in T]
    assert _read(*once, *once) == _read(*once)


def _by_hand() -> HeldGroup:
    """T is at two brokers with four queues each; c1 has 0 to 2, c2 3 to 5, c3 6 and 7; the lags are 0, 10, ... 70."""
    owners = {mq: client_id for client_id, share in AS_AVERAGELY.items() for mq in share}
    return _read(*(_row(mq, owners[mq], lag=10 * number) for number, mq in enumerate(T)))


def test_one_client_more_by_hand() -> None:
    (row,) = try_group(_by_hand(), ["averagely"], [parse_change("+1 client")])
    # Two each: 0 1 | 2 3 | 4 5 | 6 7. 2 goes to c2, 4 and 5 to c3, 6 and 7 to the new one; one that sorts first would
    # take 0 and 1, and c1 3 from c2.
    assert (row["strategy"], row["change"], row["topics"]) == ("averagely", "+1 client", ["T"])
    assert (row["queue_count"], row["client_count"], row["least_queues"], row["most_queues"]) == (8, 4, 2, 2)
    assert (row["moved_count"], row["most_moved_count"], row["added_count"], row["removed_count"]) == (5, 5, 0, 0)
    assert (row["queue_deviation"], row["queue_imbalance"], row["queue_imbalance_before"]) == (0, 1, 1)
    # 10, 50, 90, 130 of 280; the mean is 70, which the largest queue has as well. Before: 30, 120, 130, the mean 93.3.
    assert (row["lag_messages"], row["least_lag"], row["most_lag"]) == (280, 10, 130)
    assert row["lag_deviation"] == pytest.approx(2000**0.5)
    assert row["lag_imbalance"] == pytest.approx(130 / 70)
    assert row["lag_imbalance_before"] == pytest.approx(130 / (280 / 3))
    assert (row["idle_client_count"], row["unowned_count"], row["shared_count"]) == (0, 0, 0)
    assert row["concern_codes"] == []


def test_a_broker_less_and_one_client_less_by_hand() -> None:
    (row,) = try_group(_by_hand(), ["AVG"], [parse_change("-broker:broker-b and -1 client")])
    # 0 1 | 2 3: 2 goes from c1 to c2.
    assert (row["queue_count"], row["client_count"], row["removed_count"], row["moved_count"]) == (4, 2, 4, 1)
    assert (row["lag_messages"], row["least_lag"], row["most_lag"], row["most_moved_count"]) == (60, 10, 50, None)
    assert row["lag_imbalance"] == pytest.approx(50 / 30)


def test_more_clients_than_queues_and_an_uneven_share_by_hand() -> None:
    snapshot = _by_hand()
    first, second = try_group(snapshot, ["averagely"], [parse_change("+6 clients"), parse_change("queues=1")])
    assert (first["client_count"], first["idle_client_count"], first["queue_imbalance"]) == (9, 1, 1)
    assert first["concern_codes"][0] == "IDLE_CLIENTS"
    assert "1 client would have no queues" in first["concerns"]
    # c1 has a:0, c2 b:0, c3 nothing.
    assert (second["queue_count"], second["idle_client_count"], second["least_queues"]) == (2, 1, 0)
    everything = _read(*(_row(mq, "c2" if mq == T[7] else "c1") for mq in T))
    (row,) = try_group(everything, ["sticky"], [parse_change("none")])
    # 7 and 1 before, 4 and 4 after; nothing waits, so that nothing can be uneven.
    assert (row["queue_imbalance_before"], row["queue_imbalance"], row["moved_count"]) == (7 / 4, 1, 3)
    assert (row["lag_messages"], row["lag_imbalance"], row["lag_imbalance_before"]) == (0, None, None)


def test_lag_that_is_not_known_is_not_known() -> None:
    group = _read(*(_row(mq, "c1", lag=None if mq == T[0] else 1) for mq in T))
    row = next(iter(try_group(group, ["lag-weighted"], [parse_change("+1 client")])))
    assert row["lag_messages"] is row["most_lag"] is row["lag_imbalance"] is row["lag_imbalance_before"] is None
    assert (row["least_queues"], row["most_queues"]) != (None, None)
    assert "WEIGHTS_UNKNOWN" in row["concern_codes"]


def test_queues_that_come_have_no_lag() -> None:
    (row,) = try_group(_by_hand(), ["averagely"], [parse_change("queues+1")])
    assert (row["queue_count"], row["added_count"], row["lag_messages"]) == (10, 2, 280)


@pytest.mark.parametrize(
    ("strategy", "change", "code", "reason"),
    [
        ("config", "none", "STRATEGY", "The strategy config needs the queues of each client."),
        ("machine-room", "none", "STRATEGY", "The strategy machine-room needs the rooms."),
        ("averagely", "-3 clients", "CHANGE", "No client would be left."),
        ("averagely", "-4 clients", "CHANGE", "There are only 3."),
        ("averagely", "-client:c4", "CHANGE", "Client c4 does not exist."),
        ("averagely", "+client:c3", "CHANGE", "This client already exists."),
        ("averagely", "-broker:broker-c", "CHANGE", "Broker broker-c does not exist."),
        ("averagely", "queues=0", "CHANGE", "No queue would be left."),
    ],
)
def test_what_is_refused_says_why(strategy: str, change: str, code: str, reason: str) -> None:
    refused, fine = try_group(_by_hand(), [strategy, "circle"], [parse_change(change)])
    assert (refused["state"], refused["reason_code"]) == ("REFUSED", code)
    assert refused["reason"].endswith(reason)
    assert "queue_count" not in refused
    assert fine["state"] == ("REFUSED" if code == "CHANGE" else "TRIED")


@pytest.mark.parametrize("shares", [AS_AVERAGELY, AS_CIRCLE])
def test_a_snapshot_says_what_the_running_group_does(shares: Mapping[str, list[MessageQueue]]) -> None:
    live = fetch(sharing(shares)).snapshot.live
    assert live is not None
    rows = [
        QueueRow(mq, row.lag, row.client_ids[0] if row.client_ids else None, bool(row.client_ids))
        for mq, row in live.progress.items()
    ]
    changes: dict[str, dict[str, Any]] = {
        "none": {}, "+1 client": {"add_clients": (1,)}, "-1 client": {"remove_clients": (1,)},
        "+1 broker": {"add_brokers": (1,)}, "-broker:broker-b": {"remove_brokers": ("broker-b",)},
        "queues+2": {"queues": QueueChange("+", 2)},
    }  # fmt: skip
    assert set(CHANGES) < set(changes)
    found = try_group(_read(*rows), STRATEGIES, [parse_change(text) for text in changes])
    for text, change in changes.items():
        for strategy, trial in zip(STRATEGIES, tried(sharing(shares), *STRATEGIES, **change), strict=True):
            row, outcome = next(found), trial.outcome
            assert (row["strategy"], row["change"], row["state"]) == (strategy, text, "TRIED")
            assert row["moved_count"] == len(outcome.moved)
            assert row["most_moved_count"] == trial.most_moved_count
            assert (row["queue_count"], row["client_count"]) == (len(trial.snapshot.queues), len(outcome.after))
            queues, lag = outcome.balance.queues, outcome.balance.lag
            assert (row["least_queues"], row["most_queues"], row["queue_deviation"]) == (
                queues.least, queues.most, queues.deviation,
            )  # fmt: skip
            assert lag is not None
            assert (row["least_lag"], row["most_lag"], row["lag_deviation"]) == (lag.least, lag.most, lag.deviation)
            assert row["lag_messages"] == sum(share.lag or 0 for share in outcome.clients)
    assert next(found, None) is None
