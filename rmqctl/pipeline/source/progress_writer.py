"""A stream's progress as committed offsets of a group (commitGroup), for tools that show the lag of groups."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.groups.members import fetch_connections
from rmqctl.admin.groups.names import require_group
from rmqctl.admin.offsets.write import store_offset
from rmqctl.admin.results import ask_all
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import RmqctlError, UnreachableError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.text.words import listed

_LOG = logging.getLogger(__name__)

# A broker that does not answer must not hold up the stream for long: the next batch writes what is left.
_MOST_S = 5.0
# How often the offsets are read back: brokers persist them every 5 s.
_LOOK_EVERY_S = 10.0


class ProgressWriter:
    """Writes offsets to the brokers whenever they have changed, here or there.

    A broker that crashes loses the offsets of its last seconds, and tools can move them. They are therefore read back
    from time to time, also while the stream reads nothing. The first write must succeed, unless a broker does not
    answer: the group exists and has no members, and the account may write. Afterwards, what cannot be written is a
    warning, and is tried again.
    """

    def __init__(self, access: Access, group: str) -> None:
        self._access = replace(access, timeout_s=min(access.timeout_s, _MOST_S))
        self._group = group
        self._written: dict[MessageQueue, int] = {}
        self._is_begun = False
        # The monotonic time at which what brokers have is read back.
        self._look_at_s = 0.0
        # The last warning, which is not repeated while it stays the same.
        self._warned: str | None = None

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Write offsets that differ from the last written ones. Raises RmqctlError only at the first write."""
        if not offsets:
            return
        is_look_due = time.monotonic() >= self._look_at_s
        if not is_look_due and all(self._written.get(mq) == offset for mq, offset in offsets.items()):
            return
        try:
            asyncio.run(self._write(offsets, looks=is_look_due and self._is_begun))
        except RmqctlError as error:
            if not self._is_begun and not isinstance(error, UnreachableError):
                raise
            self._warn(error)
        else:
            self._warned = None

    async def _write(self, offsets: Mapping[MessageQueue, int], *, looks: bool) -> None:
        async with await self._access.connect() as client:
            brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
            errors = list((await self._look(client, brokers, offsets)).values()) if looks else []
            # The stream warns of the queues of brokers that are not registered.
            due = [mq for mq in offsets if mq.broker_name in brokers and self._written.get(mq) != offsets[mq]]
            if due:
                await self._require_no_members(client, brokers)

            async def store(mq: MessageQueue) -> None:
                master = client.require_master(brokers[mq.broker_name])
                if not await store_offset(client, master, self._group, mq, offsets[mq]):
                    raise RmqctlError(f"{mq.broker_name} keeps the offset of {mq} until a pending reset is over.")

            answers = await ask_all(due, store)
        self._written |= {mq: offsets[mq] for mq in answers.ok}
        if errors := [*errors, *answers.failed.values()]:
            # A refusal stays; a broker that does not answer may do so the next time.
            raise min(errors, key=lambda error: isinstance(error, UnreachableError))
        self._is_begun = True

    async def _look(
        self, client: Client, brokers: Mapping[str, BrokerData], offsets: Mapping[MessageQueue, int]
    ) -> Mapping[str, RmqctlError]:
        """Note the offsets that brokers have stored now; return the errors of those that did not answer."""

        async def ask(broker_name: str) -> None:
            queues = [mq for mq in offsets if mq.broker_name == broker_name]
            for mq, offset in (await fetch_stored_offsets(client, brokers[broker_name], self._group, queues)).items():
                # None: the broker has lost it.
                self._written[mq] = -1 if offset is None else offset

        answers = await ask_all({mq.broker_name for mq in offsets} & brokers.keys(), ask)
        self._look_at_s = time.monotonic() + _LOOK_EVERY_S
        return answers.failed

    async def _require_no_members(self, client: Client, brokers: Mapping[str, BrokerData]) -> None:
        """Raise UsageError for a group with members, which commit offsets too; NotFoundError for an unknown group."""
        answers = await ask_all(brokers, lambda name: fetch_connections(client, brokers[name], self._group))
        members = {member.client_id for found in answers.ok.values() if found for member in found.members}
        if members:
            raise UsageError(
                f"Group {self._group} has members that commit its offsets: {listed(sorted(members))}.",
                hint="Choose a group for commitGroup that only this stream uses.",
            )
        if not self._is_begun:
            await require_group(client, self._group, {name: brokers[name] for name in answers.ok}, answers.failed)
        for error in answers.failed.values():
            if not isinstance(error, UnreachableError):
                raise error

    def _warn(self, error: RmqctlError) -> None:
        if error.sentence != self._warned:
            _LOG.warning("The progress of the stream is not written to group %s: %s", self._group, error.sentence)
        self._warned = error.sentence
