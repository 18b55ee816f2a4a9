"""What one reading proves of a queue: a head that is stuck, pulls that ended; and what it leaves open."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.diagnose.single_reading import find_unmoved
from rmqctl.model.group import ProcessQueueInfo, RunningInfo, Subscription, TopicConsumeStatus
from rmqctl.model.progress import QueueReading
from rmqctl.model.queue import MessageQueue
from rmqctl.model.stats import ConsumeTimeSpan
from rmqctl.rules.progress import compute_progress
from rmqctl.rules.stuck_queues import StuckReason

_NOW_MS = 1_795_238_200_000
_HOUR_MS = 3_600_000
_A0, _A1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def _found(
    *, quiet_s: float = 120, count: int = 1, head: int = 5, pulled_s: float = 0, rt_ms: float = 0.0,
    oldest_s: float | None = None, expression: str = "*", held: dict[str, Any] | None = None,
    row: dict[str, Any] | None = None, **properties: str,
) -> list[StuckReason]:  # fmt: skip
    """Return why queue 0 stands still, of a member that has finished nothing of it for `quiet_s`.

    It has `count` messages in hand from `head` on; the oldest one of the queue was stored `oldest_s` ago. `held` and
    `row` are what is unusual of the queue.
    """
    fields = {
        "cached_count": count, "cached_min_offset": head if count else 0, "cached_max_offset": head + count - 1,
        "commit_offset": head, "dropped": False, "last_pull_at_ms": _NOW_MS - round(pulled_s * 1000),
        "last_consume_at_ms": _NOW_MS - round(quiet_s * 1000), "locked_at_ms": 7, **(held or {}),
    }  # fmt: skip
    words = {"PROP_CONSUMEORDERLY": "false", "PROP_THREADPOOL_CORE_SIZE": "20", **properties}
    # Another queue, without anything to do, shows what time it is.
    idle = ProcessQueueInfo(0, 0, 0, 100, dropped=False, last_pull_at_ms=_NOW_MS)
    info = RunningInfo(
        words, {_A0: ProcessQueueInfo(**fields), _A1: idle}, {},
        {"T": TopicConsumeStatus(1.0, 0.0, rt_ms, 0.0, 0.0, 0)}, (Subscription("T", expression),),
    )  # fmt: skip
    read = {"min_offset": 0, "max_offset": 100, "consumer_offset": 5, "head_age_ms": _HOUR_MS, **(row or {})}
    spans = {} if oldest_s is None else {_A0: ConsumeTimeSpan(None, round(oldest_s * 1000))}
    rows = [
        compute_progress(QueueReading(_A0, **read)),
        compute_progress(QueueReading(_A1, min_offset=0, max_offset=100, consumer_offset=100)),
    ]
    return [each.verdict.why for each in find_unmoved(rows, {"c1": info}, spans) if each.verdict is not None]


@pytest.mark.parametrize(
    ("what", "facts", "why"),
    [
        ("nothing was finished for two minutes", {}, StuckReason.IN_HAND),
        ("all threads hang, and hundreds are in hand", {"count": 740}, StuckReason.IN_HAND),
        ("in order", {
            "PROP_CONSUMEORDERLY": "true", "count": 0, "held": {"in_order_count": 1, "in_order_min_offset": 5},
        }, StuckReason.BLOCKED_IN_ORDER),
        ("the very first message hangs", {
            "head": 0, "oldest_s": 120, "row": {"consumer_offset": None},
        }, StuckReason.IN_HAND),
        ("pulls ended", {"count": 0, "pulled_s": 40}, StuckReason.NOT_PULLED),
        ("it pulls, and takes nothing", {"count": 0}, StuckReason.PAUSED),
        ("when it pulled is not told", {"count": 0, "held": {"last_pull_at_ms": None}}, StuckReason.NOT_PULLED),
        ("for longer than its pullInterval", {"count": 0, "pullInterval": "80000"}, StuckReason.PAUSED),
    ],
)  # fmt: skip
def test_one_reading_shows_it(what: str, facts: dict[str, Any], why: StuckReason) -> None:
    assert _found(**facts) == [why], what


@pytest.mark.parametrize(
    ("what", "facts"),
    [
        ("it was finished 25 s ago", {"quiet_s": 25}),
        ("the message is new", {"row": {"head_age_ms": 2_000}}),
        ("the message before it took as long", {"rt_ms": 60_000.0}),
        ("hundreds wait for a thread", {"count": 740, "rt_ms": 5_000.0}),
        ("its offset is not stored yet, so its age is not known", {"row": {"consumer_offset": 3}}),
        ("it was deleted, so its age is not known", {"row": {"min_offset": 50, "oldest_age_ms": _HOUR_MS}}),
        ("its age is not told", {"row": {"head_age_ms": None}}),
        ("nothing was ever committed", {"row": {"consumer_offset": None}}),
        ("the very first message is new", {"head": 0, "oldest_s": 5, "row": {"consumer_offset": None}}),
        ("between two attempts in order", {"PROP_CONSUMEORDERLY": "true"}),
        ("it was given up", {"held": {"dropped": True}}),
        ("nothing in hand, and finished some a moment ago", {"count": 0, "quiet_s": 30}),
        ("nothing in hand, and the next message is new", {"count": 0, "row": {"head_age_ms": 30_000}}),
        ("it may pass what its filter leaves out", {"count": 0, "expression": "A"}),
        ("it waits for its pullInterval", {"count": 0, "pulled_s": 40, "pullInterval": "100000"}),
        ("its offset is not stored yet", {"count": 0, "head": 7}),
        ("everything is read", {"count": 0, "pulled_s": 40, "head": 100, "row": {"consumer_offset": 100}}),
        ("when it pulled is not told", {"count": 0, "expression": "A", "held": {"last_pull_at_ms": None}}),
        ("when it consumed is not told", {"held": {"last_consume_at_ms": None}}),
    ],
)
def test_the_rest_may_move(what: str, facts: dict[str, Any]) -> None:
    assert _found(**facts) == [], what
