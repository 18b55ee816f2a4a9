"""Whether a retry that is sent as a new message comes again, or ends among the dead letters at once.

Brokers from 5.1.1 on take a new message to a retry topic for the last try of an orderly consumer while anybody holds a
queue lock of the group there (SendMessageProcessor.handleRetryAndDLQ, RebalanceLockManager.isLockAllExpired). Nobody
can be asked about locks: orderly members tell that they are, and which queues they hold.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

# RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME: what nobody renews any more.
LOCK_S = 60.0
# All have shared anew so long after members came or went: their interval is 20 s.
SETTLED_S = 25.0


class Told(Struct, frozen=True):
    """What a member said last of how it consumes; None for nothing, since `silent_since_s`.

    `held_at_s` is when it was last seen to hold queues of a broker, by name.
    """

    at_s: float
    is_orderly: bool | None
    held_at_s: Mapping[str, float] = {}
    silent_since_s: float | None = None


class Hindrance(Struct, frozen=True):
    """Who may hold locks at a broker. `is_orderly` is whether that is so, or only not known not to be."""

    client_id: str
    is_orderly: bool


class Verdict(Struct, frozen=True):
    """Whether retries may be sent to a broker as new messages. `doubtful` are members that still do not tell."""

    hindrance: Hindrance | None
    doubtful: tuple[str, ...] = ()


def judge(
    broker_name: str, last_there_s: Mapping[str, float], told: Mapping[str, Told], *, now_s: float, changed_s: float
) -> Verdict:
    """Judge one broker by when each other member was last known to be there, and what each has told.

    `changed_s` is when members were last seen to come or go: shares move then, and an orderly member may be about to
    lock queues of any broker. A member that does not tell is waited for as long as a lock lives, not for ever: some
    kinds of clients never tell, and a retry that can't be sent holds up its queue.
    """
    silent: list[str] = []
    doubtful: list[str] = []
    for client_id, there_s in sorted(last_there_s.items()):
        if now_s - there_s > LOCK_S:
            continue
        said = told.get(client_id)
        if said is None or said.is_orderly is None:
            since_s = there_s if said is None or said.silent_since_s is None else said.silent_since_s
            (silent if now_s - since_s <= LOCK_S else doubtful).append(client_id)
        elif said.is_orderly and (now_s - changed_s <= SETTLED_S or _may_hold(broker_name, there_s, said, now_s)):
            return Verdict(Hindrance(client_id, is_orderly=True))
    return Verdict(Hindrance(silent[0], is_orderly=False) if silent else None, tuple(doubtful))


def _may_hold(broker_name: str, there_s: float, said: Told, now_s: float) -> bool:
    held_at_s = said.held_at_s.get(broker_name)
    if held_at_s is None:
        return False
    # What it held when it was asked last, it has held for as long as it was there.
    return now_s - (max(there_s, held_at_s) if held_at_s == said.at_s else held_at_s) <= LOCK_S
