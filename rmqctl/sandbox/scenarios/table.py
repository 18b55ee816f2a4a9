"""The scenarios that fill a sandbox, by name: `rmqctl sandbox seed NAME`."""

from __future__ import annotations

from rmqctl.sandbox.sandbox import Sandbox

from .base import Scenario
from .parts import dead_letters, disagreeing_group, healthy_group, offline_backlog, stuck_message
from .seeded_group import SeededGroup


async def _shop(sandbox: Sandbox) -> list[SeededGroup]:
    # The first two set the brokers' clocks back, the backlog further; orders keep arriving once they have started.
    return [
        await offline_backlog(sandbox, "parcels", "shipping"),
        await stuck_message(sandbox, "invoices", "mailing"),
        await healthy_group(sandbox, "stock", "warehouse"),
        await disagreeing_group(sandbox, "orders", "billing"),
        await dead_letters(sandbox, "payments", "accounting"),
    ]


async def _healthy(sandbox: Sandbox) -> list[SeededGroup]:
    return [await healthy_group(sandbox, "stock", "warehouse")]


async def _disagreeing(sandbox: Sandbox) -> list[SeededGroup]:
    return [await disagreeing_group(sandbox, "orders", "billing")]


async def _dead_letters(sandbox: Sandbox) -> list[SeededGroup]:
    return [await dead_letters(sandbox, "payments", "accounting")]


async def _lagging(sandbox: Sandbox) -> list[SeededGroup]:
    return [await offline_backlog(sandbox, "parcels", "shipping")]


async def _stuck(sandbox: Sandbox) -> list[SeededGroup]:
    return [await stuck_message(sandbox, "invoices", "mailing")]


SCENARIOS = {
    "shop": Scenario("all other scenarios together, as in `rmqctl demo`", _shop),
    "healthy": Scenario("two consumers that are up to date", _healthy),
    "disagreeing": Scenario("three consumers, one slow, one with a different subscription", _disagreeing),
    "dead-letters": Scenario("a consumer that fails, and its dead letters", _dead_letters),
    "lagging": Scenario("a group that went offline two hours ago, with a backlog", _lagging),
    "stuck": Scenario("a consumer stuck on one message for three minutes", _stuck),
}
