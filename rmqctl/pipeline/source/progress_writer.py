"""A stream's progress as committed offsets of a group (commitGroup), for tools that show the lag of groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.groups.members import fetch_connections
from rmqctl.admin.groups.names import require_group
from rmqctl.admin.offsets.write import store_offset
from rmqctl.admin.results import ask_all
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError, UnreachableError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.text.words import listed

_LOG = logging.getLogger(__name__)

# A broker that does not answer must not hold up the stream for long: the next batch writes what is left.
_MOST_S = 5.0


class ProgressWriter:
    """Writes offsets to the brokers whenever they have changed.

    The first write must succeed, unless a broker does not answer: the group exists and has no members, and the account
    may write. Afterwards, what cannot be written is a warning, and written with the next change.
    """

    def __init__(self, access: Access, group: str) -> None:
        self._access = replace(access, timeout_s=min(access.timeout_s, _MOST_S))
        self._group = group
        self._written: dict[MessageQueue, int] = {}
        self._is_begun = False
        # The last warning, which is not repeated while it stays the same.
        self._warned: str | None = None

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Write offsets that differ from the last written ones. Raises RmqctlError only at the first write."""
        due = {mq: offset for mq, offset in offsets.items() if self._written.get(mq) != offset}
        if not due:
            return
        try:
            asyncio.run(self._write(due))
        except RmqctlError as error:
            if not self._is_begun and not isinstance(error, UnreachableError):
                raise
            self._warn(error)
        else:
            self._warned = None

    async def _write(self, due: Mapping[MessageQueue, int]) -> None:
        async with await self._access.connect() as client:
            brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
            await self._require_no_members(client, brokers)

            async def store(mq: MessageQueue) -> None:
                master = client.require_master(brokers[mq.broker_name])
                if not await store_offset(client, master, self._group, mq, due[mq]):
                    raise RmqctlError(f"{mq.broker_name} keeps the offset of {mq} until a pending reset is over.")

            # The stream warns of the queues of brokers that are not registered.
            answers = await ask_all([mq for mq in due if mq.broker_name in brokers], store)
        self._written |= {mq: due[mq] for mq in answers.ok}
        if answers.failed:
            # A refusal stays; a broker that does not answer may do so the next time.
            raise min(answers.failed.values(), key=lambda error: isinstance(error, UnreachableError))
        self._is_begun = True

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
