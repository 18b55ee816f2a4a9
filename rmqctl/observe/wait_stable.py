"""Wait until a group has adopted the offsets that were written for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.sample import GroupSample, QueueSample
from rmqctl.net.clock import pause
from rmqctl.observe.rules.reconsumed import reconsumed_at_least
from rmqctl.rules.confirmation import judge
from rmqctl.rules.written_offsets import ResetOutcome, WriteVerdict, WrittenOffset, push_quiet_s

from .group_sampler import GroupSampler

_GROWTH = 1.2
_LONGEST_INTERVAL_S = 2.0


class StableResult(Struct, frozen=True):
    """The verdict for each queue, and the last sample with the latest state of each queue, None without time for one.

    `reconsumed_at_least` is for the confirmed queues; see rmqctl.observe.rules.reconsumed.
    """

    verdicts: Mapping[MessageQueue, WriteVerdict]
    last_sample: GroupSample | None
    reconsumed_at_least: Mapping[MessageQueue, int | None] = {}


async def wait_until_confirmed(
    client: Client,
    group: str,
    written: Sequence[WrittenOffset],
    brokers: Mapping[str, BrokerData],
    *,
    limit_s: float,
    interval_s: float = 0.5,
    was_online: bool = True,
    baseline: GroupSample | None = None,
    on_progress: Callable[[Mapping[ResetOutcome, int]], None] = lambda _: None,
) -> StableResult:
    """Watch a group until the verdict for each queue is final, for at most limit_s and the client's deadline.

    Call this right after the write. `brokers` are all brokers of the cluster, by name. `baseline` is a sample of these
    queues from just before the write. Without it, a queue that a member has already reread up to the old offset stays
    UNKNOWN.
    `on_progress` is called after each sample with the number of queues by outcome. Samples are taken every interval_s
    at first, then less often. Brokers that do not answer raise nothing: their queues are UNKNOWN.
    """
    items = {each.mq: each for each in written}
    open_items = dict(items)
    verdicts = dict.fromkeys(open_items, WriteVerdict(ResetOutcome.UNKNOWN, "there was no time to check it"))
    quiet_s = push_quiet_s(open_items.values())
    sampler, clock = GroupSampler(client, group, brokers), client.clock
    until_s = clock.monotonic_s() + min(limit_s, client.deadline.remaining_s())
    samples: list[GroupSample] = []
    seen: dict[MessageQueue, QueueSample] = {}
    while open_items and clock.monotonic_s() < until_s:
        next_s = clock.monotonic_s() + interval_s
        samples.append(await sampler.sample(list(open_items)))
        seen |= samples[-1].queues
        for mq, item in list(open_items.items()):
            verdicts[mq] = judge(item, samples, was_online=was_online, baseline=baseline, quiet_s=quiet_s)
            if verdicts[mq].is_final:
                del open_items[mq]
        on_progress(Counter(verdict.outcome for verdict in verdicts.values()))
        if open_items:
            await pause(clock, max(0.0, min(next_s, until_s) - clock.monotonic_s()))
            interval_s = min(interval_s * _GROWTH, max(interval_s, _LONGEST_INTERVAL_S))
    reconsumed = {
        mq: reconsumed_at_least(items[mq], baseline, samples)
        for mq, verdict in verdicts.items()
        if verdict.outcome is ResetOutcome.CONFIRMED
    }
    return StableResult(verdicts, replace(samples[-1], queues=seen) if samples else None, reconsumed)
