"""What a change of a topic takes from its groups, read now; a saved plan must have named it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.changes.plan_parts import stale
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.model.plan import ConfigItem, Consequence, Plan, Route
from rmqctl.model.route import BrokerData

from .readers import read_use
from .rules.effects import LOSSES, deleted_queues, describe_losses, loss_key, takes_messages

USE_UNREAD = "USE_UNREAD"


class Losses(Struct, frozen=True):
    """The consequences for messages and groups, and what could not be read for them.

    `reading` are the groups with members that read the topic where it is deleted, or can be read no longer.
    """

    consequences: tuple[Consequence, ...] = ()
    reading: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    failures: tuple[Failure, ...] = ()


async def find_losses(
    client: Client, topic: str, items: Sequence[ConfigItem], brokers: Mapping[str, BrokerData]
) -> Losses:
    """Return what a change takes from the groups of a topic."""
    taking = [item for item in takes_messages(items) if item.broker_name in brokers]
    if not taking:
        return Losses()
    use = await read_use(client, topic, {item.broker_name: brokers[item.broker_name] for item in taking})
    consequences = tuple(describe_losses(taking, use.queues, use.groups))
    if use.failures:  # a topic without messages where it could be read may have some elsewhere
        consequences = tuple(each for each in consequences if each.code in LOSSES)
    consequences += tuple(
        Consequence(USE_UNREAD, f"{name} did not report all messages and groups of the topic: it may have more.")
        for name in sorted({failure.broker_name or "" for failure in use.failures})
    )
    groups = frozenset(use.groups) if deleted_queues(taking, use.queues) else frozenset()
    return Losses(consequences, use.online, groups, use.failures)


async def require_foreseen(client: Client, plan: Plan) -> None:
    """Raise StaleError when a plan would now take messages away that it does not name, or when that is unknown."""
    items = [item for item in plan.configs if item.route is not Route.UNSEEN]
    brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
    losses = await find_losses(client, plan.subject.name, items, brokers)
    known = {loss_key(each) for each in plan.consequences}
    drift = [each.text for each in losses.consequences if each.code in LOSSES and loss_key(each) not in known]
    noted = {each.text.split()[0] for each in plan.consequences if each.code == USE_UNREAD}
    drift += [
        f"{failure.broker_name}: {failure.what} cannot be read: {failure.error.sentence}"
        for failure in losses.failures
        if failure.broker_name not in noted
    ]
    if drift:
        raise stale(drift)
