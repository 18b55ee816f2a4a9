"""Read a broker's clock."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.protocol import bodies, headers
from rmqctl.rules.clock_skew import ClockSample

from .core import Client

# Every broker creates this topic and this group for itself, and the group never consumes the topic. For a queue without
# a stored offset a broker answers its own time (AdminBrokerProcessor.queryConsumeTimeSpan).
_TOPIC, _GROUP = "SELF_TEST_TOPIC", headers.TOOLS_CONSUMER_GROUP


async def sample_clock(client: Client, address: str, now_ms: Callable[[], int]) -> ClockSample | None:
    """Return a broker's time together with that of `now_ms`, None when the broker does not report it.

    Changes nothing on the broker. Raises the request's errors.
    """
    sent_at_ms = now_ms()
    answer = await client.ask(address, headers.get_consume_time_span(_TOPIC, _GROUP))
    received_at_ms = now_ms()
    remote_at_ms = bodies.decode_broker_clock(answer.body)
    return None if remote_at_ms is None else ClockSample(sent_at_ms, received_at_ms, remote_at_ms)
