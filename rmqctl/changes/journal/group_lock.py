"""One writer at a time per group, topic or broker of a cluster, among this user's processes on this machine.

A cluster has no unique identity: the same one is reached through several name servers, and two can have the same names.
So each is locked at the address of each master of its cluster, even of masters that a plan does not change: two
plans have at least one address in common, whichever brokers they change, and whichever name servers listed them. If all
brokers moved meanwhile, they still have the cluster's label in common. Clusters with other addresses do not conflict.
Clusters behind tunnels can, if their brokers registered the same private addresses: then one change is refused while
the other runs, which is safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rmqctl.client.core import Client
from rmqctl.model.plan import Plan, Subject
from rmqctl.rules.written_offsets import NEXT_PUSH_S
from rmqctl.state.folder import state_folder
from rmqctl.state.lock import free, take

# A Java client that gets a reset stops for the first time (MQClientInstance.resetOffset), and commits its positions at
# the second interval (persistConsumerOffsetInterval): before both are over, a second reset would meet the first.
_RESET_PAUSE_MS = 10_000
_PERSIST_INTERVAL_MS = 5_000
_HINT = "Nothing was changed. Try again when that process has ended."


async def lock_places(client: Client, plan: Plan) -> set[str]:
    """Return the places where a plan's group is locked, as name servers list them now; later checks ask again."""
    masters = {broker.master_address for broker in (await client.fresh_cluster()).registered}
    return {plan.cluster, *plan.brokers.values(), *(address for address in masters if address is not None)}


@contextmanager
def group_lock(
    subject: Subject, operation: str, places: Collection[str], *, folder: Path | None = None
) -> Iterator[None]:
    """Hold the lock of what is changed at all places. Raises BusyError immediately when another process has one.

    `places` are from lock_places(); `folder` is the state folder, if it is not the user's. Raises UsageError for an
    unusable folder, UnsupportedError on systems that cannot lock files.
    """
    folder = state_folder() if folder is None else folder
    # A group's name has no blank, so a topic of the same name has another lock.
    key = subject.group if subject.kind == "group" else str(subject)
    with ExitStack() as held:
        # Always in the same order: of two processes that want the same places, one gets all of them.
        for place in sorted(set(places)):
            name = hashlib.sha256(f"{key}\0{place}".encode(errors="backslashreplace")).hexdigest()[:16]
            path = folder / "locks" / f"{name}.lock"
            held.callback(
                free,
                take(path, str(operation), f"{subject.title} is being changed by", _HINT),
            )
        yield


def cool_down_ms(last: tuple[int, int] | None, now_ms: int) -> int:
    """Return how long the next change of a group has to wait; `last` is when and how many resets were last pushed.

    Two resets that are pushed within 10 s break Java clients, or reset only some queues. A client handles the resets
    of several topics or brokers one after the other.
    """
    if last is None or last[1] == 0:
        return 0
    whole_ms = _RESET_PAUSE_MS + (last[1] - 1) * int(NEXT_PUSH_S * 1000) + _PERSIST_INTERVAL_MS
    since_ms = max(0, now_ms - last[0])  # less than 0: the clock was set back
    return max(0, whole_ms - since_ms)
