"""Fan out: ask many servers concurrently, and keep each answer and each failure under its own key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import NotAskedError, NotFoundError, RemoteProtocolError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.route import BrokerData
from rmqctl.text.wildcards import require_matching
from rmqctl.text.words import counted, listed

K = TypeVar("K")
V = TypeVar("V")


# The number of calls that start before the others go on; meanwhile the deadline may be over.
_STARTED_AT_ONCE = 1_000


class Answers(Struct, Generic[K, V], frozen=True):
    """The results of ask_all(): `ok` and `failed` together contain every key."""

    ok: Mapping[K, V]
    failed: Mapping[K, RmqctlError]


async def ask_all(keys: Iterable[K], call: Callable[[K], Awaitable[V]], *, at_once: int | None = None) -> Answers[K, V]:
    """Call for all keys concurrently, at most `at_once` at a time; the client bounds the requests in flight.

    RmqctlErrors are returned in `failed`; other exceptions are raised. Once the command's deadline is over, no more
    calls are made: with 60,000 brokers, to let each of them fail takes longer than the deadline.
    """
    asked = list(keys)
    left = iter(asked)
    results: dict[K, V | RmqctlError] = {}
    over: NotAskedError | None = None

    async def work() -> None:
        nonlocal over
        for key in left:
            if over is not None:
                return
            try:
                results[key] = await call(key)
            except RmqctlError as error:
                results[key] = _named(key, error)
                if isinstance(error, NotAskedError):
                    over = error

    async with asyncio.TaskGroup() as group:
        for number in range(min(at_once or len(asked), len(asked))):
            if number and number % _STARTED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if over is not None:
                break
            group.create_task(work())
    ok: dict[K, V] = {}
    failed: dict[K, RmqctlError] = {}
    for key in asked:
        if over is not None and key not in results:
            failed[key] = NotAskedError(_name_of(key), over.deadline_s)
            continue
        result = results[key]
        if isinstance(result, RmqctlError):
            failed[key] = result
        else:
            ok[key] = result
    return Answers(ok, failed)


async def ask_any(keys: Iterable[K], call: Callable[[K], Awaitable[V]]) -> Answers[K, V]:
    """Return the same as ask_all(). Raises the most important error when there are no answers."""
    answers = await ask_all(keys, call)
    only_or_failed(answers)
    return answers


def _broker_of(key: object) -> BrokerData | None:
    return next((part for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, BrokerData)), None)


def _name_of(key: object) -> str:
    """Return what was not asked: the broker's address, as in other errors."""
    broker = _broker_of(key)
    return str(key) if broker is None else broker.master_address or broker.broker_name


def _named(key: object, error: RmqctlError) -> RmqctlError:
    """Replace "The peer" in an error by the broker's name, which decoders do not know."""
    broker = _broker_of(key)
    if broker is None or not isinstance(error, RemoteProtocolError) or not error.sentence.startswith(_PEER):
        return error
    return error.reworded(broker.broker_name + error.sentence.removeprefix(_PEER))


_PEER = "The peer"


def all_failed(failures: Iterable[RmqctlError]) -> RmqctlError:
    """Return the error that represents several failures: the first of the most important kind."""
    order = {4: 0, 6: 1}
    return min(failures, key=lambda error: order.get(error.exit_code, 2))


def none_answered(failures: Iterable[tuple[str, RmqctlError]]) -> RmqctlError:
    """Return the error for a cluster in which all brokers failed; it names them."""
    failed = list(failures)
    error = all_failed(each for _, each in failed)
    names = sorted({name for name, _ in failed})
    if len(names) == 1:
        return error
    return error.reworded(f"{error.sentence} All {len(names)} brokers failed: {listed(names, _SHOWN)}.")


_SHOWN = 10


def by_broker_name(failed: Mapping[BrokerData, RmqctlError]) -> dict[str, RmqctlError]:
    """Return the errors by broker name."""
    return {broker.broker_name: error for broker, error in failed.items()}


def failed_by_name(failures: Iterable[Failure]) -> dict[str, RmqctlError]:
    """Return the errors by broker name, or by what failed."""
    return {failure.broker_name or failure.what: failure.error for failure in failures}


def not_found(error: NotFoundError, unread: Mapping[str, RmqctlError]) -> RmqctlError:
    """Return the error; if servers in `unread` could not be read, theirs, because the thing may exist there."""
    if not unread:
        return error
    says = error.sentence.removesuffix(".").replace("does not exist", "was not found")
    names, reason = listed(sorted(unread), _SHOWN), all_failed(unread.values())
    return reason.reworded(f"{says}, but {names} could not be read. {reason.sentence}")


def unread_brokers(client: Client, failed: Mapping[str, RmqctlError]) -> dict[str, RmqctlError]:
    """Return the errors of brokers that may know more than was read: those that failed, and those whose slave answered.

    A slave's tables are copies. They are empty after its start, and while the master refuses them.
    """
    return {**{f"the master of {name}": error for name, error in client.silent_masters.items()}, **failed}


def as_reported(copies: Container[str], found: Mapping[str, V | None]) -> dict[str, V | None]:
    """Return what brokers reported, by broker name. What `copies` lack is left out: a slave answered for the master."""
    return {name: value for name, value in found.items() if value is not None or name not in copies}


def only_or_failed(answers: Answers[K, V]) -> list[V]:
    """Return the answers, in order. Raises the most important error when there are none."""
    if answers.failed and not answers.ok:
        raise all_failed(answers.failed.values())
    return list(answers.ok.values())


def all_or_failed(answers: Answers[K, V]) -> Mapping[K, V]:
    """Return the answers. Raises the most important error when anything failed."""
    if answers.failed:
        raise all_failed(answers.failed.values())
    return answers.ok


def merge_failures(by_group: Mapping[str, Sequence[Failure]]) -> list[Failure]:
    """Return the failures of several groups, each reason of a broker once, with the number of groups."""
    if len(by_group) == 1:
        return [failure for failures in by_group.values() for failure in failures]
    alike: dict[tuple[str | None, str, str], list[tuple[str, Failure]]] = {}
    for group, failures in by_group.items():
        for failure in failures:
            alike.setdefault((failure.broker_name, failure.what, failure.error.name), []).append((group, failure))
    merged = []
    for (group, failure), *rest in alike.values():
        more = f" and {counted(len(rest), 'more group')}" if rest else ""
        merged.append(Failure(failure.broker_name, f"{failure.what} of {group}{more}", failure.error))
    return merged


def pick(
    kind: str, patterns: Sequence[str], names: Iterable[str], failed_brokers: Mapping[str, RmqctlError]
) -> tuple[str, ...]:
    """Return the names that patterns match, sorted.

    Raises NotFoundError for a pattern that matches none; the failed brokers' error instead if some failed, as they may
    have a match.
    """
    try:
        return require_matching(kind, patterns, names)
    except NotFoundError as error:
        raise not_found(error, failed_brokers) from None


def unread_groups(groups: Sequence[str], answers: Answers[str, V]) -> dict[str, RmqctlError]:
    """Return the groups that could not be read, of those that `groups` matched, without those that are skipped."""
    return {
        name: error
        for name, error in answers.failed.items()
        if name in groups or not (isinstance(error, NotFoundError) and error.kind == "Topic")
    }


def of_matching(groups: Sequence[str], answers: Answers[str, V], failures: list[Failure]) -> list[V]:
    """Return the answers for the groups that `groups` matched, and add the groups that failed to `failures`.

    Groups that only match a pattern and lack the requested topics are skipped. Raises the most important error when
    nothing was read.
    """
    unread = failed_by_name(failures)
    failures += [Failure.of_group(name, error) for name, error in unread_groups(groups, answers).items()]
    try:
        return only_or_failed(answers)
    except NotFoundError as error:
        raise not_found(error, unread) from None
