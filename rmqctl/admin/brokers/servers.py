"""Check whether every name server and every broker of a cluster can be reached."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.client.identity import ServerKind
from rmqctl.errors import NotAskedError, RemoteProtocolError, RmqctlError, UnreachableError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.route import MASTER_ID
from rmqctl.protocol import headers

from .cluster import fetch_expected
from .probe import ServerProbe, probe_server


class ClusterServer(Struct, frozen=True):
    """A server of a cluster and its answer. `broker_name`: None for a name server."""

    probe: ServerProbe
    broker_name: str | None = None
    broker_id: int | None = None

    @property
    def error(self) -> RmqctlError | None:
        """Why the server is not usable, None when it is."""
        expected = ServerKind.NAME_SERVER if self.broker_name is None else ServerKind.BROKER
        kind = self.probe.kind
        if self.probe.error is None and kind is not None and kind is not expected:
            wanted, found = (str(name).lower().replace("_", " ") for name in (expected, kind))
            what = "unknown" if kind is ServerKind.UNKNOWN else f"a {found}"
            hint = "Check the address of the broker, or map it with --map-address."
            sentence = f"{self.probe.address} is not a {wanted} ({what})."
            return UsageError(sentence, hint=hint if self.broker_name else None)
        return self.probe.error


async def fetch_servers(client: Client) -> list[ClusterServer]:
    """Probe every name server, then every replica of every broker that they list. Their errors are in the result."""
    found = [ClusterServer(probe) for probe in await probe_all(client, client.name_servers)]
    for server in found:
        if server.probe.cluster is not None:
            client.note_brokers(server.probe.cluster.brokers)
    replicas = {
        (broker.broker_name, broker_id, address): None
        for server in found
        if server.probe.cluster is not None
        for broker in server.probe.cluster.brokers
        for broker_id, address in broker.addresses.items()
    }
    probes = await probe_all(client, [address for *_, address in replicas])
    found += [
        ClusterServer(probe, name, broker_id) for probe, (name, broker_id, _) in zip(probes, replicas, strict=True)
    ]
    return found


async def fetch_silent_slaves(client: Client) -> list[Failure]:
    """Return a failure for each silent slave, for commands that read only masters and so do not notice it."""
    slaves = [
        (broker.broker_name, broker_id, address)
        for broker in (await fetch_expected(client)).brokers
        for broker_id, address in sorted(broker.addresses.items())
        if broker_id != MASTER_ID
    ]
    answers = await ask_all(slaves, lambda slave: client.ask(slave[2], headers.get_broker_config()))
    return [
        Failure(name, f"slave {broker_id}", error)
        for (name, broker_id, _), error in answers.failed.items()
        if isinstance(error, (UnreachableError, RemoteProtocolError))
    ]


async def probe_all(client: Client, addresses: tuple[str, ...] | list[str]) -> list[ServerProbe]:
    """Probe servers concurrently; return the results in order."""

    async def probe(address: str) -> ServerProbe:
        found = await probe_server(client, address)
        if isinstance(found.error, NotAskedError):
            raise found.error  # ends the fan-out
        return found

    answers = await ask_all(addresses, probe)
    return [
        answers.ok[address] if address in answers.ok else ServerProbe(address, error=answers.failed[address])
        for address in addresses
    ]
