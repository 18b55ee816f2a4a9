"""Verdicts over a window of samples, and what a group's numbers show when a part is unknown."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, QueueSample
from rmqctl.observe.fleet_activity import GroupKey
from rmqctl.observe.recording import QueueDetail, RecordedSample
from rmqctl.rules.health import Cause, Health, HealthSettings
from rmqctl.rules.time_lag import TimeLag
from rmqctl.watch.health import GroupHealth, HealthWindow
from rmqctl.watch.items import health_item

MINUTE_MS = 60_000
A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("U", "b", 0)
Pair = tuple[int | None, int | None]


def recorded(at_ms: int, queues: dict[MessageQueue, Pair], state: GroupState = GroupState.ONLINE) -> RecordedSample:
    """Return a sample of the group pay: consumer offset and end by queue; None was not read."""
    samples = {}
    for mq, (offset, end) in queues.items():
        reasons = {"clientId": Unknown.NOT_REPORTED}
        if end is None:
            reasons |= dict.fromkeys(("consumerOffset", "maxOffset"), Unknown.BROKER_UNREACHABLE)
        samples[mq] = QueueSample(mq, offset, end, reasons=reasons)
    sample = GroupSample(at_ms, at_ms / 1000, "pay", state, ("one",), samples)
    return RecordedSample(sample, "C", dict.fromkeys(queues, QueueDetail(0, None, is_none_stored=False)))


def judged(rounds: Sequence[dict[MessageQueue, Pair]], window_ms: int = 5 * MINUTE_MS) -> GroupHealth:
    """Return the verdict after rounds that are a minute apart."""
    window = HealthWindow(window_ms, HealthSettings())
    for number, queues in enumerate(rounds):
        window.add(recorded(number * MINUTE_MS, queues))
    (group,) = window.judge((len(rounds) - 1) * MINUTE_MS)
    return group


def test_a_group_is_as_healthy_as_its_worst_queue() -> None:
    group = judged([{A0: (10 * at, 10 * at), A1: (5, 20 + at), B0: (7, 9)} for at in range(4)])
    assert (group.key, group.health, group.cause) == (GroupKey("C", "pay"), Health.STALL, Cause.STANDS_STILL)
    assert group.worst is not None
    assert group.worst.mq == A1  # of two, the one with more unread messages
    assert {each.mq: each.verdict.health for each in group.queues} == {
        A0: Health.OK, A1: Health.STALL, B0: Health.STALL,
    }  # fmt: skip
    assert (group.lag().value, group.lag("T").value, group.lag("U").value) == (20, 18, 2)
    assert group.topics() == ("T", "U")


def test_only_samples_of_the_window_count() -> None:
    rounds: list[dict[MessageQueue, Pair]] = [{A0: (5, 5)}, *({A0: (5, 9)} for _ in range(4))]
    assert judged(rounds).health is Health.OK  # as in Burrow, it was caught up within the window
    assert judged(rounds, window_ms=4 * MINUTE_MS).health is Health.STALL


def test_an_age_stays_known_when_the_window_has_passed_it() -> None:
    rounds: list[dict[MessageQueue, Pair]] = [{A0: (5, 5)}, *({A0: (5, 6)} for _ in range(9))]
    window = HealthWindow(2 * MINUTE_MS, HealthSettings())
    for number, queues in enumerate(rounds):
        window.add(recorded(number * MINUTE_MS, queues))
        (group,) = window.judge(number * MINUTE_MS)
    assert group.time_lag() == TimeLag(8 * MINUTE_MS, 8 * MINUTE_MS)


def test_what_was_not_read_is_a_lower_bound() -> None:
    group = judged([{A0: (5, 9), A1: (None, None)}] * 4)
    assert (group.health, group.lag().value, group.lag().at_least) == (Health.STALL, None, 4)
    assert group.lag().reason == Unknown.BROKER_UNREACHABLE
    assert group.time_lag() == TimeLag(None, 3 * MINUTE_MS)


def test_a_broker_that_was_never_seen_makes_a_good_verdict_unknown() -> None:
    for queues, health in (({A0: (9, 9)}, Health.UNKNOWN), ({A0: (5, 9)}, Health.STALL)):
        window = HealthWindow(5 * MINUTE_MS, HealthSettings())
        for at in range(4):
            window.add(recorded(at * MINUTE_MS, dict(queues)))
        (group,) = window.judge(3 * MINUTE_MS, {"C": ("b",)})
        assert (group.health, group.lag().value) == (health, None)
        assert ("b did not answer" in group.reason) is (health is Health.UNKNOWN)


def test_groups_and_queues_that_are_gone_are_forgotten() -> None:
    window = HealthWindow(2 * MINUTE_MS, HealthSettings())
    window.add(recorded(0, {A0: (1, 9), A1: (1, 9)}))
    for at in (1, 2):
        window.add(recorded(at * MINUTE_MS, {A0: (1, 9)}))
        (group,) = window.judge(at * MINUTE_MS)
    assert [each.mq for each in group.queues] == [A0]
    assert window.judge(9 * MINUTE_MS) == []


def test_messages_that_no_consumer_can_read_are_named_with_the_reason() -> None:
    window = HealthWindow(5 * MINUTE_MS, HealthSettings())
    window.add(recorded(0, {A0: (7, 9)}))
    cut = {MessageQueue("T", "broker-a", 4): 5}
    (group,) = window.judge(0, {}, {GroupKey("C", "pay"): cut})
    item = health_item(group, None)
    assert (item["lag"], item["unreadableMessageCount"]) == (2, 5)
    assert item["reason"].endswith("; 5 messages in 1 queue that no consumer can read")
