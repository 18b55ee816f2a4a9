"""One writer at a time in a group of a cluster, as far as this user's processes on this machine go.

A cluster has no identity that all who name it agree on: the same one is reached by several name servers, and two can
have the same names. So a group is locked at the address of each of its cluster's masters, also those that a plan leaves
alone: whichever brokers two plans touch, and whichever name servers told them, they meet at one. Should they not, for
all brokers moved meanwhile, they meet at the cluster's label. Clusters of other addresses don't meet. Those behind
tunnels can, where their brokers registered the same private addresses: then one waits for the other, which is safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rmqctl.client.core import Client
from rmqctl.model.plan import Plan
from rmqctl.rules.confirmation import NEXT_PUSH_S

from .state_lock import free, take
from .state_place import state_folder

# A Java client that is told to reset stops for so long (MQClientInstance.resetOffset), and stores its positions every
# so often (persistConsumerOffsetInterval): before both are over, a second reset meets the first.
_RESET_PAUSE_MS = 10_000
_PERSIST_INTERVAL_MS = 5_000
_HINT = "Try again when it has ended; nothing was changed."


async def lock_places(client: Client, plan: Plan) -> set[str]:
    """Return where a plan's group is locked, as name servers have it now; later checks ask again."""
    masters = {broker.master_address for broker in (await client.fresh_cluster()).registered}
    return {plan.cluster, *plan.brokers.values(), *(address for address in masters if address is not None)}


@contextmanager
def group_lock(group: str, operation: str, places: Collection[str], *, folder: Path | None = None) -> Iterator[None]:
    """Hold a group's lock at all places. Raises BusyError at once when another process has one of them.

    `places` are those of lock_places(), `folder` the state folder, if it is not the user's. Raises UsageError for a
    folder of no use, UnsupportedError where files can't be locked.
    """
    folder = state_folder() if folder is None else folder
    with ExitStack() as held:
        # In one order: of two that want several of the same, one gets all of them.
        for place in sorted(set(places)):
            name = hashlib.sha256(f"{group}\0{place}".encode(errors="backslashreplace")).hexdigest()[:16]
            path = folder / "locks" / f"{name}.lock"
            held.callback(free, take(path, str(operation), f"Group {group} is being changed by", _HINT))
        yield


def cool_down_ms(last: tuple[int, int] | None, now_ms: int) -> int:
    """Return how long the next change of a group has to wait, after when and how often its clients were told last.

    Two resets that clients are told of within 10 s break Java clients, or reset some queues only. Those of several
    topics or brokers follow each other in the client.
    """
    if last is None or last[1] == 0:
        return 0
    whole_ms = _RESET_PAUSE_MS + (last[1] - 1) * int(NEXT_PUSH_S * 1000) + _PERSIST_INTERVAL_MS
    since_ms = max(0, now_ms - last[0])  # less than 0: somebody has set the clock back
    return max(0, whole_ms - since_ms)
