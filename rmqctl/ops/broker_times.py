"""The brokers' time, by which they store messages: "two hours back" is counted from it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from rmqctl.admin.offset_writes import require_master
from rmqctl.admin.probe import measure_clock
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.model.plan import Consequence
from rmqctl.model.route import Broker
from rmqctl.ops.rules.reset import Spec
from rmqctl.rules.plan_consequences import describe_clocks, middle_skew_ms


async def resolve_ago(
    client: Client, brokers: Mapping[str, Broker], spec: Spec
) -> tuple[Spec, tuple[Consequence, ...]]:
    """Return a wish with its time by the brokers' clocks, and the consequences to report about these clocks.

    Wishes without a relative time are unchanged. Brokers that do not report their time are left out; if no broker
    reports it, this machine's clock is used. Raises UsageError for a time before 1970.
    """
    if spec.ago_ms is None:
        return spec, ()
    answers = await ask_all(brokers, lambda name: measure_clock(client, require_master(brokers[name])))
    skews = {name: skew for name, skew in answers.ok.items() if skew is not None}
    at_ms = client.clock.now_ms() + middle_skew_ms(skews) - spec.ago_ms
    if at_ms < 0:
        raise UsageError(f"{spec.words} is before 1970.")
    consequences = tuple(describe_clocks(skews, brokers.keys() - skews.keys()))
    return replace(spec, value=at_ms), consequences
