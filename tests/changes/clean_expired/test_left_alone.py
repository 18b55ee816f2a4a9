"""Which stuck queues are left alone, by what their client and the journal report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes.clean_expired.left_alone import find_left_alone
from rmqctl.changes.documents.encode import plan_document
from rmqctl.changes.journal.journal import Journal
from rmqctl.model.plan import CleanStep, ListenerBlock, Operation, Plan, PlanItem, ReturnedMessage, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ReceiptItem, Result, Who
from rmqctl.observe.stuck_scan import StuckQueue
from rmqctl.protocol.command import Command
from tests.admin.cluster import held, running
from tests.observe.test_group_sampler import A0
from tests.observe.test_stuck_scan import NOW_MS, STACK, cluster, member, scan

OTHER = MessageQueue("T", "broker-a", 1)
RETRY = MessageQueue("%RETRY%G", "broker-a", 0)
ALL = ListenerBlock.ALL_THREADS
ONE_THREAD = {"PROP_THREADPOOL_CORE_SIZE": "1"}


def stuck(reply: Command) -> StuckQueue:
    (found,) = scan(cluster(reply), older_than_ms=4_000).stuck
    return found


def orderly(in_order: int, uncommitted: int) -> Command:
    """A member whose listener has not returned, and has so many messages of this process queue."""
    fields = {"transactionMsgCount": in_order, "transactionMsgMinOffset": 5, "transactionMsgMaxOffset": 5}
    fields["uncommittedMsgCount"] = uncommitted
    queue = held(1, 5, 5, 5, lastConsumeTimestamp=NOW_MS - 60_000, lastPullTimestamp=NOW_MS, **fields)
    return running({A0: queue}, PROP_CONSUMEORDERLY="true", PROP_THREADPOOL_CORE_SIZE="20")


def cleaned(
    journal: Journal, receipt_id: str, result: Result, *, mq: MessageQueue = A0, client_id: str = "one",
    block: ListenerBlock | None = ALL,
) -> None:  # fmt: skip
    """Note an earlier cleaning of a queue, as apply does."""
    step = CleanStep(4, 3, 16, (ReturnedMessage(4, 400, "M4", "T", 0),), client_id, 7, block)
    plan = Plan(
        id=f"p-{receipt_id}", operation=Operation.CLEAN_EXPIRED, created_at_ms=1, cluster="C",
        brokers={"broker-a": "127.0.0.1:1"}, group="G", route=Route.SERVER_SIDE,
        items=(PlanItem(mq, 4, 5, Route.SERVER_SIDE, cleaning=step),),
    )  # fmt: skip
    journal.begin(
        receipt_id, plan, json.dumps(plan_document(plan)), "5" * 64, now_ms=1, who=Who("ada", "h", os.getpid(), None)
    )
    journal.settle(receipt_id, {0: ReceiptItem(mq, 4, 5, Route.SERVER_SIDE, result)})


@pytest.mark.parametrize(
    ("stored", "is_left"), [({}, False), ({A0: 5}, False), ({A0: 6}, True), ({A0: 10}, True), ({OTHER: 10}, False)]
)
def test_a_queue_that_its_client_has_not_followed(
    tmp_path: Path, stored: dict[MessageQueue, int | None], is_left: bool
) -> None:
    with Journal(tmp_path / "journal") as journal:
        assert bool(find_left_alone("G", [stuck(member(quiet_ms=60_000))], stored, journal)) == is_left


@pytest.mark.parametrize(
    ("in_order", "uncommitted", "is_left"),
    [(0, 0, True), (1, 0, False), (2, 1, True)],
    ids=["never given to the listener", "given", "behind uncommitted ones"],
)
def test_a_message_of_an_orderly_listener(tmp_path: Path, in_order: int, uncommitted: int, is_left: bool) -> None:
    with Journal(tmp_path / "journal") as journal:
        found = find_left_alone("G", [stuck(orderly(in_order, uncommitted))], {}, journal)
    assert bool(found) == is_left


@pytest.mark.parametrize(
    ("properties", "earlier", "is_left"),
    [
        # The first cleaning stays possible.
        (ONE_THREAD, [], False),
        (ONE_THREAD, [(Result.UNKNOWN, {})], True),
        # It has free threads: what it has is in its listener.
        ({}, [(Result.UNKNOWN, {})], False),
        # The client consumed from the queue after that.
        (ONE_THREAD, [(Result.UNKNOWN, {}), (Result.CONFIRMED, {})], False),
        (ONE_THREAD, [(Result.CONFIRMED, {}), (Result.UNKNOWN, {})], True),
        # The queue did not move.
        (ONE_THREAD, [(Result.NOT_ATTEMPTED, {})], False),
        (ONE_THREAD, [(Result.UNCHANGED, {})], False),
        (ONE_THREAD, [(Result.UNKNOWN, {}), (Result.NOT_ATTEMPTED, {})], True),
        # Another queue, another client, and one that was not blocked then.
        (ONE_THREAD, [(Result.UNKNOWN, {"mq": OTHER})], False),
        (ONE_THREAD, [(Result.UNKNOWN, {"client_id": "on"})], False),
        (ONE_THREAD, [(Result.UNKNOWN, {"client_id": "one#2"})], False),
        (ONE_THREAD, [(Result.UNKNOWN, {"block": None})], False),
    ],
)
def test_a_client_that_was_cleaned_while_it_was_blocked(
    tmp_path: Path, properties: dict[str, str], earlier: list[tuple[Result, dict[str, Any]]], is_left: bool
) -> None:
    with Journal(tmp_path / "journal") as journal:
        for number, (result, options) in enumerate(earlier):
            cleaned(journal, f"r{number}", result, **options)
        queue = stuck(member(quiet_ms=60_000, dump=STACK, properties=properties))
        assert bool(find_left_alone("G", [queue], {}, journal)) == is_left


@pytest.mark.parametrize(("client_id", "expected"), [("one", "r0"), ("two", None)])
def test_copies_in_the_retry_topic_are_from_any_queue(tmp_path: Path, client_id: str, expected: str | None) -> None:
    with Journal(tmp_path / "journal") as journal:
        cleaned(journal, "r0", Result.UNKNOWN)
        assert journal.last_blocked_cleaning("G", RETRY, client_id) is None
        assert journal.last_blocked_cleaning("G", None, client_id) == expected
        assert journal.last_blocked_cleaning("G2", None, client_id) is None
