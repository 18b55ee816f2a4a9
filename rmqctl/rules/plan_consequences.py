"""The consequences of a plan of offsets beyond its numbers, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import Consequence, PlanItem
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted, listed

from .clock_skew import SkewBounds, middle_clock
from .store_times import TimeOrder, describe_back

EVERYTHING = "*"
CLIENTS_AHEAD, CLOCK_SKEW = "CLIENTS_AHEAD", "CLOCK_SKEW"
_SKEW_LIMIT_MS = 5_000


def is_range(item: PlanItem) -> bool:
    """Tell whether a plan knows only bounds for the effect on a queue."""
    return any(
        bounds is not None and bounds[0] != bounds[1] for bounds in (item.reconsumed_bounds, item.skipped_bounds)
    )


def describe_ahead(items: Sequence[PlanItem], rows: Sequence[QueueProgress]) -> Iterator[Consequence]:
    """Describe what members have consumed past the stored offsets, which makes effects uncertain."""
    ranged = {item.mq for item in items if is_range(item)}
    open_rows = [row for row in rows if row.mq in ranged]
    held_count = sum(
        max(0, row.pulled_to - (row.consumer_offset or 0)) for row in open_rows if row.pulled_to is not None
    )
    consumed_count = sum(row.duplicate_risk or 0 for row in open_rows)
    if held_count:
        text = (
            f"Members have pulled {counted(held_count, 'message')} past the stored offsets and consumed up to "
            f"{consumed_count} of them. Those from the target on are redelivered."
        )
        yield Consequence(CLIENTS_AHEAD, text)
    unknown = [row.mq for row in open_rows if row.pulled_to is None]
    if unknown:
        text = f"How far members have pulled is unknown for {counted(len(unknown), 'queue')}: {listed(unknown)}."
        yield Consequence(CLIENTS_AHEAD, text)


def narrowing(filters: Mapping[str, Collection[str]], topics: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the filters of these topics that pass only some messages."""
    return {
        topic: expressions
        for topic in sorted(topics)
        if (expressions := tuple(sorted(set(filters.get(topic, ())) - {EVERYTHING})))
    }


def describe_unsubscribed(
    topics: Collection[str], subscribed: Collection[str], unheard: Sequence[str]
) -> Iterator[Consequence]:
    """Warn of topics that no member subscribes to; `unheard` names members that did not answer. Skip retry topics."""
    lacking = sorted(topic for topic in topics if topic not in subscribed and not topic.startswith(RETRY_PREFIX))
    if lacking:
        unless = f" Unknown: {' and '.join(unheard)}." if unheard else ""
        text = f"No member subscribes to {listed(lacking)}: messages there are not consumed.{unless}"
        yield Consequence("NOT_SUBSCRIBED", text)


def describe_delayed() -> Consequence:
    """Describe messages that no offset change reaches: they wait in SCHEDULE_TOPIC_XXXX or on the timer wheel."""
    text = (
        "Failed messages that still wait for their retry delay (up to 2 h by default) are not in the retry topic yet. "
        "They cannot be moved or skipped, and are redelivered later."
    )
    return Consequence("DELAYED_STAY", text)


def describe_targets(orders: Mapping[MessageQueue, TimeOrder]) -> Iterator[Consequence]:
    """Describe queues whose store times go back: their targets by time were found by reading, or may be too late."""
    for order, code, meaning in (
        (
            TimeOrder.READ,
            "TIMES_NOT_IN_ORDER",
            "There, rmqctl found the first message stored at that time or later by reading messages.",
        ),
        (
            TimeOrder.HALVED,
            "TARGET_NOT_FIRST",
            "There, rmqctl searched by halving: earlier messages may also be of that time or later.",
        ),
    ):
        for text in describe_back([mq for mq, found in orders.items() if found is order], meaning):
            yield Consequence(code, text)


def target_note(order: TimeOrder) -> str:
    """Return the note on the target of one queue."""
    return {
        TimeOrder.RISING: "",
        TimeOrder.READ: "store times go back: found by reading",
        TimeOrder.HALVED: "store times go back: found by halving",
    }[order]


def describe_clocks(skews: Mapping[str, SkewBounds], unreported: Collection[str]) -> Iterator[Consequence]:
    """Describe how this machine's clock differs from the brokers', by which times back from now are counted."""
    far = {name: skew.middle_ms for name, skew in sorted(skews.items()) if skew.exceeds(_SKEW_LIMIT_MS)}
    if far:
        said = listed(
            f"{short_duration(abs(skew_ms))} {'behind' if skew_ms > 0 else 'ahead of'} {name}"
            for name, skew_ms in far.items()
        )
        text = f"The clock of this machine is {said}. The time is counted back from the brokers' clock."
        yield Consequence(CLOCK_SKEW, text)
    if not skews:
        text = f"{listed(sorted(unreported))} did not report the time: it is counted back from this machine's clock."
        yield Consequence("CLOCK_UNKNOWN", text)
    elif max(skew.low_ms for skew in skews.values()) - min(skew.high_ms for skew in skews.values()) > _SKEW_LIMIT_MS:
        middles_ms = {name: skew.middle_ms for name, skew in sorted(skews.items())}
        apart_ms = max(middles_ms.values()) - min(middles_ms.values())
        counting = next(name for name, middle_ms in middles_ms.items() if middle_ms == middle_skew_ms(skews))
        text = (
            f"The brokers' clocks differ by {short_duration(apart_ms)}: the time is counted back from that of "
            f"{counting}, {'the slower one' if len(skews) == 2 else 'which is in the middle'}."
        )
        yield Consequence("CLOCKS_DIFFER", text)


def middle_skew_ms(skews: Mapping[str, SkewBounds]) -> int:
    """Return the brokers' median skew ahead of this machine's clock in ms; the lower of two, 0 without any."""
    middle = middle_clock(skews.values())
    return 0 if middle is None else middle.middle_ms
