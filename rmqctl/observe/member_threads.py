"""Ask members for the threads that are in their listeners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rmqctl.admin.groups.members import fetch_running_infos
from rmqctl.admin.offsets.reading import BrokerView
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.observe.rules.stack_dumps import ListenerThread, listener_threads
from rmqctl.rules.member_settings import MemberSettings


class MemberThreads(Struct, frozen=True):
    """The listener threads of a member with a queue that does not move; `threads`: None when it does not report.

    Some of them may be in the listener of another group in the same process.
    """

    client_id: str
    thread_count: int | None
    threads: tuple[ListenerThread, ...] | None

    @property
    def busy_count(self) -> int | None:
        """The number of threads in the listener, None when unknown."""
        if self.threads is None or not all(each.is_own for each in self.threads):
            return None
        return len(self.threads)

    @property
    def is_exhausted(self) -> bool:
        """Whether it is certain that all of its threads are in the listener."""
        own_count = sum(each.is_own for each in self.threads or ())
        return self.thread_count is not None and self.threads is not None and own_count >= self.thread_count


async def fetch_member_threads(
    client: Client, group: str, views: Iterable[BrokerView], settings: Mapping[str, MemberSettings]
) -> tuple[dict[str, MemberThreads], list[Failure]]:
    """Ask the members with these settings, through the brokers that they are connected to.

    Returns their threads, None for those that do not report them, and the members that did not answer.
    """
    if not settings:
        return {}, []
    through = {view.address: view.connections for view in views if view.connections is not None}
    infos = await fetch_running_infos(client, group, through, only=settings, with_stacks=True)
    members = {}
    for client_id, each in settings.items():
        info = infos.ok.get(client_id)
        dump = None if info is None else info.stacks
        threads = None if dump is None else listener_threads(dump, group)
        members[client_id] = MemberThreads(client_id, each.thread_count, None if threads is None else tuple(threads))
    return members, [Failure(None, f"stacks of {client_id}", error) for client_id, error in infos.failed.items()]
