"""The rights that cleaning needs after a message is sent back: checked before, because that cannot be undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rmqctl.admin.messages.returns import require_copies_readable
from rmqctl.admin.offsets.write import require_may_reset
from rmqctl.admin.results import ask_all
from rmqctl.changes.plan_parts import broker_of
from rmqctl.client.core import Client
from rmqctl.errors import NotAuthorisedError
from rmqctl.model.plan import PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData


async def find_missing_rights(
    client: Client, brokers: Mapping[str, BrokerData], group: str, items: Iterable[PlanItem]
) -> dict[MessageQueue, NotAuthorisedError]:
    """Return the queues that this account cannot clean to the end, and why; changes nothing.

    Reading a message and sending it back needs `Sub` on topic and
    group, which is enough for BROKER_WRITE and for acknowledging popped messages. The right for CLIENT_PUSH is not
    checked: any request for it would reach the clients. Errors other than refusals are left to the requests themselves.
    """
    routes = {item.mq: item.route for item in items}

    def address_of(name: str) -> str:
        return client.require_master(broker_of(brokers, name))

    resets = {(mq.broker_name, mq.topic): mq for mq, route in routes.items() if route is Route.SERVER_SIDE}
    copies = await ask_all(
        {mq.broker_name for mq in routes}, lambda name: require_copies_readable(client, address_of(name), group)
    )
    writes = await ask_all(resets, lambda place: require_may_reset(client, address_of(place[0]), group, resets[place]))
    found: dict[MessageQueue, NotAuthorisedError] = {}
    for mq in routes:
        for error in (copies.failed.get(mq.broker_name), writes.failed.get((mq.broker_name, mq.topic))):
            if isinstance(error, NotAuthorisedError):
                found.setdefault(mq, error)
    return found
