"""The clocks of a group's brokers and members, relative to this machine's clock and to each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from rmqctl.errors import RmqctlError
from rmqctl.model.group import RunningInfo
from rmqctl.model.progress import QueueProgress
from rmqctl.rules.clock_skew import ClockBounds, SkewBounds
from rmqctl.rules.member_clock import ConsumedMessage, member_clock
from rmqctl.rules.member_settings import member_settings
from rmqctl.text.durations import short_duration
from rmqctl.text.words import listed

# An idle member pulls every 20 s: its clock can be judged to this precision without waiting.
CLEAR_MS = 30_000
# Closer bounds are shown as one value with its error.
_CLOSE_MS = 2_000


class GroupClocks(Struct, frozen=True):
    """Known bounds of how far each clock is ahead of this machine's, in ms.

    `brokers` are by broker name, `members` by client id; `unmeasured` is why a broker is missing, None without a time
    in its answer.
    """

    brokers: Mapping[str, SkewBounds] = {}
    members: Mapping[str, ClockBounds] = {}
    unmeasured: Mapping[str, RmqctlError | None] = {}

    @property
    def reference(self) -> SkewBounds:
        """The clock that others are compared with: the range of all brokers' clocks, else this machine's clock."""
        if not self.brokers:
            return SkewBounds(0, 0)
        every = self.brokers.values()
        return SkewBounds(min(each.low_ms for each in every), max(each.high_ms for each in every))

    @property
    def reference_name(self) -> str:
        """The reference in words."""
        return f"the clock of {listed(self.brokers)}" if self.brokers else "this machine's clock"

    def every(self) -> dict[tuple[str, str], ClockBounds]:
        """Return all clocks by kind (BROKER, MEMBER) and name."""
        brokers = {("BROKER", name): ClockBounds(skew.low_ms, skew.high_ms) for name, skew in self.brokers.items()}
        return brokers | {("MEMBER", client_id): bounds for client_id, bounds in self.members.items()}

    def vague(self) -> list[str]:
        """Return the members whose clocks are not known well enough to be judged."""
        # Brokers may be far apart: a member anywhere between them is not off.
        near = SkewBounds(self.reference.low_ms - CLEAR_MS, self.reference.high_ms + CLEAR_MS)
        return [
            client_id
            for client_id, off in self.off().items()
            if abs(off.off_ms()) <= CLEAR_MS and not self.members[client_id].is_between(near)
        ]

    def off(self) -> dict[str, ClockBounds]:
        """Return how far each member's clock is ahead of the reference, by client id."""
        return {client_id: bounds.minus(self.reference) for client_id, bounds in self.members.items()}


def measure_members(
    looks: Mapping[str, Sequence[RunningInfo]], rows: Sequence[QueueProgress], brokers: Mapping[str, SkewBounds]
) -> dict[str, ClockBounds]:
    """Return the bounds of each member's clock, from its answers and from its progress in each queue."""
    consumed: dict[str, list[ConsumedMessage]] = {}
    for row in rows:
        broker = brokers.get(row.mq.broker_name)
        client_id = row.client_ids[0] if len(row.client_ids) == 1 else ""
        if broker is not None and client_id in looks:
            consumed.setdefault(client_id, []).extend(_consumed(row, looks[client_id][0], broker))
    return {client_id: member_clock(answers, consumed.get(client_id, ())) for client_id, answers in looks.items()}


def _consumed(row: QueueProgress, info: RunningInfo, broker: SkewBounds) -> Iterator[ConsumedMessage]:
    """Return when a member finished the last message before the stored offset, if it has passed that offset itself.

    A member never consumes messages that its filter leaves out, but it pulls again after passing them.
    """
    held, stored_at_ms = info.process_queues.get(row.mq), row.last_timestamp_ms
    if held is None or held.dropped or stored_at_ms is None or row.consumer_offset is None:
        return
    if held.commit_offset is None or held.commit_offset < row.consumer_offset:
        return
    takes_all = any(each.topic == row.mq.topic and each.filter_key == ("TAG", "*") for each in info.subscriptions)
    if takes_all and held.last_consume_at_ms is not None:
        yield ConsumedMessage(held.last_consume_at_ms, stored_at_ms, broker)
    interval_ms = member_settings(info).pull_interval_ms
    if held.last_pull_at_ms is not None and interval_ms is not None:
        yield ConsumedMessage(held.last_pull_at_ms + interval_ms, stored_at_ms, broker)


def skew_words(bounds: ClockBounds) -> str:
    """Return in words how far a clock that is certainly off is ahead of another one, or behind it."""
    direction = "ahead of" if bounds.off_ms() > 0 else "behind"
    close = _close(bounds)
    if close is None:
        return f"at least {short_duration(abs(bounds.off_ms()))} {direction}"
    middle_ms, error_ms = close
    return f"{abs(middle_ms) / 1000:.3f} s (± {error_ms} ms) {direction}"


def clock_words(bounds: ClockBounds) -> str:
    """Return the bounds of a clock's offset in words; a bound may be unknown."""
    close = _close(bounds)
    if close is None:
        return f"{_seconds(bounds.low_ms)} to {_seconds(bounds.high_ms)}"
    middle_ms, error_ms = close
    return f"{_seconds(middle_ms)} ± {error_ms} ms"


def _close(bounds: ClockBounds) -> tuple[int, int] | None:
    """Return the middle of close bounds and its error, both in ms; None when they are not close."""
    if bounds.low_ms is None or bounds.high_ms is None or bounds.high_ms - bounds.low_ms > _CLOSE_MS:
        return None
    middle_ms = (bounds.low_ms + bounds.high_ms) // 2
    return middle_ms, bounds.high_ms - middle_ms


def _seconds(offset_ms: int | None) -> str:
    return "unknown" if offset_ms is None else f"{offset_ms / 1000:+.3f} s"
