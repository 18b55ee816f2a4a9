"""What plans of all kinds are made with."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rmqctl.model.route import Broker

# Why a plan that only takes something away does not tell what that is worth.
NOT_LOOKED_UP = dict.fromkeys(
    ("minOffset", "maxOffset", "change", "reconsumed", "skipped", "lost", "firstStoreTimestamp"), "NOT_LOOKED_UP"
)


def new_id(now_ms: int) -> str:
    """Return a new id, which sorts by time."""
    return f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def cluster_label(brokers: Iterable[Broker], name_servers: Sequence[str]) -> str:
    """Return what a cluster is called in plans and in the journal, whichever of its name servers answered."""
    names = ",".join(sorted({broker.cluster for broker in brokers}))
    return f"{names}@{';'.join(sorted(name_servers))}"
