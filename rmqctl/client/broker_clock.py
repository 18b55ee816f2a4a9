"""One look at a broker's clock."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.protocol import bodies, headers
from rmqctl.rules.clock_skew import ClockSample

from .core import Client

# A topic and a group that every broker makes for itself; nobody has consumed the one in the name of the other, and for
# a queue without a stored offset a broker answers its own time (AdminBrokerProcessor.queryConsumeTimeSpan).
_TOPIC, _GROUP = "SELF_TEST_TOPIC", headers.TOOLS_CONSUMER_GROUP


async def sample_clock(client: Client, address: str, now_ms: Callable[[], int]) -> ClockSample | None:
    """Ask a broker for its time, beside that of `now_ms`; None when it does not tell. Raises the request's errors.

    It leaves no trace.
    """
    sent_at_ms = now_ms()
    answer = await client.ask(address, headers.get_consume_time_span(_TOPIC, _GROUP))
    received_at_ms = now_ms()
    remote_at_ms = bodies.decode_broker_clock(answer.body)
    return None if remote_at_ms is None else ClockSample(sent_at_ms, received_at_ms, remote_at_ms)
