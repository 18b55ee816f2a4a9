"""Cells of tables of clients that are connected to brokers: members of groups, and producers."""

from __future__ import annotations

from .listing import Item


def show_hosts(item: Item) -> str:
    """Return the hosts of a client's connections, `clientAddrs`, without their ports."""
    addresses = {address for at_broker in item["clientAddrs"].values() for address in at_broker}
    return ",".join(sorted({address.rpartition(":")[0] for address in addresses})) or "-"


def show_reported_by(item: Item) -> str:
    """Return how many brokers see a client, of those that should: 1/2, or 1/2? if a broker did not answer."""
    total = len({*item["brokerNames"], *item["unseenAt"], *item["untoldAt"]})
    return f"{len(item['brokerNames'])}/{total}{'?' if item['untoldAt'] else ''}"
