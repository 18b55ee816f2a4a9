"""Sends a shard, in a task. A later attempt first looks for the copies that an earlier one has sent."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress

from rmqctl.changes.dlq.copies import find_copies, find_late_copies
from rmqctl.changes.dlq.lanes import BrokerLanes
from rmqctl.client.core import Client
from rmqctl.errors import RefusedError, RmqctlError

from .shards import Shard, ShardResult

# A process that did not run for this time may have been given up.
_STOPPED_S = 10.0
_LOOK_EVERY_S = 0.5


class DetachedError(Exception):
    """This attempt may run next to a later one of the same shard: it sends nothing more, and its result is void."""


class Leash:
    """Ends an attempt that Spark may have given up: one that was stopped, has lost its executor, or takes too long."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._parent = os.getppid()
        self._begun_s = self._seen_s = time.monotonic()
        self._is_broken = False

    async def watch(self) -> None:
        """Look regularly, until cancelled."""
        while True:
            self._look()
            await asyncio.sleep(_LOOK_EVERY_S)

    def check(self) -> None:
        """Raise DetachedError, or RefusedError for an attempt that takes too long, before a request is sent."""
        self._look()
        if self._is_broken:
            raise DetachedError(f"The task was stopped for more than {_STOPPED_S:g} s, or its executor has ended.")
        if time.monotonic() - self._begun_s > self._most_s:
            raise RefusedError(f"Not sent: the task would take more than {self._most_s:g} s.")

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s - self._seen_s > min(_STOPPED_S, self._most_s) or os.getppid() != self._parent:
            self._is_broken = True
        self._seen_s = now_s


def send_shard(shard: Shard) -> ShardResult:
    """Send a shard; return what is stored, and the errors of the rest. Raises DetachedError."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return asyncio.run(
        _send(shard, Leash(shard.errand.most_s), is_later=context is not None and context.attemptNumber() > 0)
    )


async def _send(shard: Shard, leash: Leash, *, is_later: bool) -> ShardResult:
    try:
        connected = await shard.errand.access.connect()
    except RmqctlError as error:
        if is_later:
            raise
        # Without a client, nothing was sent.
        return ShardResult(errors=dict.fromkeys(shard.numbers, error))
    watching = asyncio.create_task(leash.watch())
    try:
        async with connected as client:
            return await _send_rest(client, shard, leash, is_later=is_later)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _send_rest(client: Client, shard: Shard, leash: Leash, *, is_later: bool) -> ShardResult:
    """Send what is not on the target. Raises RmqctlError if an earlier attempt may have sent what cannot be found."""
    errand = shard.errand
    rows = [row for lane in shard.lanes for request in lane for row in request.rows]
    copies = await (find_late_copies if is_later else find_copies)(client, errand.ledger_id, rows)
    if copies.stored and not is_later:
        # What is there was sent by an attempt of which Spark does not tell: it may have more on its way.
        copies = await find_late_copies(client, errand.ledger_id, rows)
        is_later = True
    if is_later and copies.open:
        raise copies.error or RmqctlError("It is unknown what an earlier attempt has sent.")
    known = {row[:4]: to_offset for row, to_offset in copies.stored}
    result = ShardResult(found_count=len(known))
    lanes = BrokerLanes(client, errand.producer_group, known=known, before_each=leash.check)

    def on_stored(index: int, offsets: Sequence[int], is_safe: bool) -> None:
        result.stored.append((shard.numbers[index], list(offsets), is_safe))

    errors = await lanes.send(shard.lanes, on_stored, result.failing)
    result.errors = {shard.numbers[index]: error for index, error in errors.items()}
    return result
