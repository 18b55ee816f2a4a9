"""Fan-out: ask many at once, keep each answer and each failure under its own key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure

K = TypeVar("K")
V = TypeVar("V")


class Answers(Struct, Generic[K, V], frozen=True):
    """What came back: `ok` and `failed` together hold every key that was asked."""

    ok: Mapping[K, V]
    failed: Mapping[K, RmqctlError]


async def ask_all(keys: Iterable[K], call: Callable[[K], Awaitable[V]]) -> Answers[K, V]:
    """Call for every key at once; the client bounds how many are in flight. Only rmqctl's own errors are data."""
    asked = list(keys)

    async def one(key: K) -> V | RmqctlError:
        try:
            return await call(key)
        except RmqctlError as error:
            return error

    ok: dict[K, V] = {}
    failed: dict[K, RmqctlError] = {}
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(key)) for key in asked]
    for key, task in zip(asked, tasks, strict=True):
        result = task.result()
        if isinstance(result, RmqctlError):
            failed[key] = result
        else:
            ok[key] = result
    return Answers(ok, failed)


def all_failed(failures: Iterable[RmqctlError]) -> RmqctlError:
    """Return the error that stands for all when nobody answered: the first of those with the most weight."""
    order = {4: 0, 6: 1}
    return min(failures, key=lambda error: order.get(error.exit_code, 2))


def slave_failures(client: Client) -> list[Failure]:
    """Return a failure for each master whose slave answered instead: its copy of offsets can be 10 s old."""
    return [Failure(name, "master, its slave answered", error) for name, error in sorted(client.silent_masters.items())]
