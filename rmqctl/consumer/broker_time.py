"""The brokers' time, as far as their answers prove it; it is the source of subscription versions.

Brokers order the subscriptions of a group's members by these versions. RocketMQ's clients take versions from their own
clocks, so a client with a fast clock overrules the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Mapping

from rmqctl.client.broker_clock import sample_clock
from rmqctl.client.core import Client
from rmqctl.errors import NotAuthorisedError, RmqctlError
from rmqctl.model.route import BrokerData
from rmqctl.rules.clock_skew import ClockSample, SkewBounds, compute_skew, middle_clock

# The shortest round trip of these gives the bounds; old samples are discarded, because clocks drift.
_KEPT_SAMPLES = 8
FIRST_SAMPLES = 3


class BrokerTime:
    """The time by the brokers' clocks, or by our own clock if no broker reports its time.

    Requests leave no trace. A step of our own clock has no effect: the time is derived from the monotonic clock.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._samples: dict[str, deque[ClockSample]] = {}
        self._skews: dict[str, SkewBounds] = {}
        # By broker name: why its time is unknown. A broker that denies access is not asked again: it may log denials.
        self.errors: dict[str, RmqctlError] = {}
        self._refused: set[str] = set()

    async def measure(self, brokers: Collection[BrokerData], *, sample_count: int = FIRST_SAMPLES) -> None:
        """Ask each broker `sample_count` times, and forget other brokers. Never raises an error of the cluster."""
        names = {broker.broker_name for broker in brokers}
        for name in [name for name in self._samples if name not in names]:
            del self._samples[name]
            self._skews.pop(name, None)
        await asyncio.gather(*(self._measure(broker, sample_count) for broker in brokers))

    async def _measure(self, broker: BrokerData, sample_count: int) -> None:
        for _ in range(sample_count):
            if not await self.sample(broker):
                return

    async def sample(self, broker: BrokerData) -> bool:
        """Ask a broker's master once; return whether it answered with its time."""
        name, address = broker.broker_name, broker.master_address
        if address is None or name in self._refused:
            return False
        try:
            sample = await sample_clock(self._client, address, self._monotonic_ms)
        except RmqctlError as error:
            self.errors[name] = error
            if isinstance(error, NotAuthorisedError):
                self._refused.add(name)
            return False
        self.errors.pop(name, None)
        if sample is None:
            return False
        samples = self._samples.setdefault(name, deque(maxlen=_KEPT_SAMPLES))
        samples.append(sample)
        self._skews[name] = compute_skew(samples)
        return True

    def now_ms(self) -> int:
        """Return the brokers' time, epoch ms: the middle one of several that differ."""
        skew = self._middle()
        return self._client.clock.now_ms() if skew is None else self._monotonic_ms() + skew.middle_ms

    def next_version_ms(self, before_ms: int) -> int:
        """Return a version for a changed subscription: now, but always newer than its previous version `before_ms`."""
        return max(self.now_ms(), before_ms + 1)

    def skew(self) -> SkewBounds | None:
        """Return the skew of the brokers' clocks against our wall clock; None while no broker reports its time."""
        skew = self._middle()
        return None if skew is None else self._from_wall(skew)

    def skews(self) -> Mapping[str, SkewBounds]:
        """Return the skew of each broker's clock, by broker name."""
        return {name: self._from_wall(skew) for name, skew in self._skews.items()}

    def _middle(self) -> SkewBounds | None:
        return middle_clock(self._skews.values())

    def _from_wall(self, skew: SkewBounds) -> SkewBounds:
        ahead_ms = self._client.clock.now_ms() - self._monotonic_ms()
        return SkewBounds(skew.low_ms - ahead_ms - 1, skew.high_ms - ahead_ms + 1)

    def _monotonic_ms(self) -> int:
        return int(self._client.clock.monotonic_s() * 1000)
