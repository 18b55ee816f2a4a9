"""How tasks sign their requests: each reads the keys on its own machine, so that no description of a task has them."""

from __future__ import annotations

import socket

from msgspec import Struct

from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import UsageError


class TaskAccess(Struct, frozen=True):
    """The access of tasks; `is_signed` says whether the driver has keys. Keys that are options travel as options do."""

    access: Access
    is_signed: bool

    @property
    def timeout_s(self) -> float:
        """Return how long to wait for a broker that does not answer."""
        return self.access.timeout_s

    async def connect(self) -> Client:
        """Return a client, in a task. Raises UsageError on a machine that does not have the driver's keys."""
        access, here = self.access, socket.gethostname()
        try:
            is_signed = access.credentials() is not None
        except UsageError as error:
            hint = f"Each executor reads this file itself, here the one on {here}."
            raise error.reworded(error.sentence, hint=error.hint or hint) from None
        if self.is_signed and not is_signed:
            raise UsageError(
                f"The executor on {here} has no keys: only the driver has RMQCTL_ACCESS_KEY and RMQCTL_SECRET_KEY.",
                hint="Set both for the executors, or set rocketmq.credentials to a file that each machine has.",
            )
        return await access.connect(open_ended=True)


def task_access(access: Access) -> TaskAccess:
    """Return the access of tasks, on the driver. Raises UsageError for a file of keys that cannot be read."""
    return TaskAccess(access, access.credentials() is not None)
