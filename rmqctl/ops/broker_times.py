"""The time by which the brokers of a plan store messages: what "two hours back" counts from."""

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
from rmqctl.rules.plan_consequences import describe_clocks, middle_skew_ms
from rmqctl.rules.reset import Spec


async def resolve_ago(
    client: Client, brokers: Mapping[str, Broker], spec: Spec
) -> tuple[Spec, tuple[Consequence, ...]]:
    """Return a wish with its time by the brokers' clocks, and what is to be said of them.

    Other wishes stay as they are. Brokers that do not report their time are left out; where none does, this machine's
    clock is taken. Raises UsageError for a time before 1970.
    """
    if spec.ago_ms is None:
        return spec, ()
    answers = await ask_all(brokers, lambda name: measure_clock(client, require_master(brokers[name])))
    skews = {name: skew for name, skew in answers.ok.items() if skew is not None}
    at_ms = client.clock.now_ms() + middle_skew_ms(skews) - spec.ago_ms
    if at_ms < 0:
        raise UsageError(f"{spec.words} goes back before 1970.")
    consequences = tuple(describe_clocks(skews, brokers.keys() - skews.keys()))
    return replace(spec, value=at_ms), consequences
