"""Find brokers that share a name, and names that share an address: an answer may then be from the wrong broker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import (
    DeadlineError,
    DuplicateBrokerError,
    NotFoundError,
    RefusedError,
    RmqctlError,
    UnreachableError,
)
from rmqctl.model.failure import Failure
from rmqctl.model.route import MASTER_ID
from rmqctl.net.clock import wait_for
from rmqctl.protocol import bodies, headers
from rmqctl.rules.cluster_memory import addresses_of
from rmqctl.text.words import listed

from .core import Client

# How long a server that may use the name of another one has to report who it is.
_IDENTITY_S = 3.0
# How long a former address that does not answer may still be another broker's. Name servers drop a broker that is
# silent for 2 minutes; when it goes on, it registers again.
_DOUBT_MS = 600_000
_HINT = "Give each broker its own brokerName, then restart the name servers: they may keep the old entry."


class BrokerIdentity(Struct, frozen=True):
    """Who a broker says it is. With one `booted_at`, two addresses lead to one process."""

    broker_name: str
    broker_id: str
    booted_at: str


async def find_duplicates(client: Client) -> list[Failure]:
    """Return a failure for each broker name that several brokers use, and for each address with several names.

    Asks only the addresses that a name had before. Never raises.
    """
    names = client.name_server_views.broker_names
    if not names.current:
        return []
    failures = []
    try:
        await client.cluster()
    except RmqctlError:
        pass  # the routes and the memory can still be compared; the command reports the error
    for name, clusters in sorted(names.clusters.items()):
        if len(clusters) > 1:
            failures.append(_failure(name, f"{name} is listed in several clusters ({listed(sorted(clusters))})"))
    for address, several in sorted(names.shared.items()):
        sentence = f"{address} is registered as {' and as '.join(several)}"
        failures += [_failure(name, sentence) for name in several]
    known, checks = {failure.broker_name for failure in failures}, []
    for name, current in sorted(names.current.items()):
        if name in client.addresses.mapped or current in client.addresses.mapped:
            checks.append(_check_mapped(client, name, current))
        elif former := _former_addresses(client, name):
            checks.append(_find_others(client, name, former))
    found = await asyncio.gather(*checks)
    failures += [each for each in found if each is not None and each.broker_name not in known]
    return failures


def with_duplicates(failures: Iterable[Failure], error: NotFoundError) -> RmqctlError:
    """Return the error; if brokers share a name, theirs, because the thing may exist at the one that was not asked."""
    duplicate = next((each.error for each in failures if isinstance(each.error, DuplicateBrokerError)), None)
    if duplicate is None:
        return error
    says = error.sentence.removesuffix(".").replace("does not exist", "was not found")
    return duplicate.reworded(f"{says}. {duplicate.sentence}", hint=duplicate.hint)


async def require_distinct(client: Client, broker_names: Collection[str]) -> None:
    """Raise RefusedError if one of these names is used by several brokers: a change may reach the wrong one."""
    refuse_duplicates(await find_duplicates(client), broker_names)


def refuse_duplicates(failures: Iterable[Failure], broker_names: Collection[str]) -> None:
    """Raise RefusedError if one of these failures is of a broker to change."""
    for failure in failures:
        if isinstance(failure.error, DuplicateBrokerError) and failure.broker_name in broker_names:
            raise RefusedError(f"Nothing was changed. {failure.error.sentence}", hint=failure.error.hint)


def _former_addresses(client: Client, name: str) -> dict[str, int]:
    """Return where masters of the name were seen, apart from its current addresses, and when last."""
    names = client.name_server_views.broker_names
    seen = addresses_of(client.expectation.brokers.get(name) or client.expectation.faded.get(name))
    seen |= dict.fromkeys(names.others.get(name, ()), client.clock.now_ms())
    now_used = {names.current[name], *names.slaves.get(name, ())}
    return {address: at_ms for address, at_ms in sorted(seen.items()) if address not in now_used}


async def _find_others(client: Client, name: str, former: Mapping[str, int]) -> Failure | None:
    """Ask former addresses of a name who is there, and note in the sightings those that may still use the name."""
    names, now_ms = client.name_server_views.broker_names, client.clock.now_ms()
    current, asked = names.current[name], [*former]
    here, *there = await asyncio.gather(*(_identity(client, address) for address in (current, *asked)))
    uses = {address: _uses_name(name, each, here) for address, each in zip(asked, there, strict=True)}
    rivals = [address for address in asked if uses[address]]
    unknown = [address for address in asked if uses[address] is None and now_ms - former[address] < _DOUBT_MS]
    names.others[name] = {*rivals, *unknown}
    if name in client.sightings.brokers:
        others = dict.fromkeys(rivals, now_ms) | {address: former[address] for address in unknown}
        client.sightings.brokers[name] = replace(client.sightings.brokers[name], others=others)
    if rivals:
        return _failure(name, f"Several masters are named {name}: {listed([current, *rivals])}")
    if unknown:
        sentence = (
            f"{name} was at {listed(unknown)} and is at {current} now. Not all of them answer, so rmqctl cannot tell "
            "whether they are one broker"
        )
        return _failure(name, sentence, hint=f"If it was moved: rmqctl doctor --forget-broker {name}")
    return None


async def _check_mapped(client: Client, name: str, address: str) -> Failure | None:
    """Return a failure if --map-address leads to another broker."""
    found = await _identity(client, address)
    if isinstance(found, RmqctlError) or found.broker_name == name:
        return None  # the request itself fails as well
    hint = "Check --map-address, or map-address of the context."
    return _failure(name, f"The address that {name} is mapped to is {found.broker_name}'s", hint=hint)


def _uses_name(name: str, other: BrokerIdentity | RmqctlError, here: BrokerIdentity | RmqctlError) -> bool | None:
    """Return whether the server at a former address is another master of the name; None if that is unknown.

    Nothing listens at the address of a broker that moved; what is silent or refuses the question may still be there.
    """
    if isinstance(other, RmqctlError):
        is_gone = isinstance(other, UnreachableError) and other.name == UnreachableError.name
        return False if is_gone else None
    if (other.broker_name, other.broker_id) != (name, str(MASTER_ID)):
        return False
    return None if isinstance(here, RmqctlError) else other.booted_at != here.booted_at


async def _fetch_identity(client: Client, address: str) -> BrokerIdentity:
    config = await client.ask(address, headers.get_broker_config())
    runtime = await client.ask(address, headers.get_broker_runtime())
    settings = bodies.decode_properties_text(config.body)
    booted_at = bodies.decode_key_values(runtime.body).get("bootTimestamp", "")
    return BrokerIdentity(
        broker_name=settings.get("brokerName", ""), broker_id=settings.get("brokerId", ""), booted_at=booted_at
    )


async def _identity(client: Client, address: str) -> BrokerIdentity | RmqctlError:
    try:
        return await wait_for(client.clock, _fetch_identity(client, address), _IDENTITY_S)
    except TimeoutError:
        return DeadlineError(address, _IDENTITY_S)
    except RmqctlError as error:
        return error


def _failure(broker_name: str, sentence: str, *, hint: str = _HINT) -> Failure:
    error = DuplicateBrokerError(f"{sentence}. Answers and changes may reach the wrong broker.", hint=hint)
    return Failure(broker_name, "identity", error)
