"""Read the status of every broker and replica."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.admin.brokers.rules.runtime_table import BrokerRuntime, read_runtime
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.model.route import MASTER_ID, BrokerData, ClusterInfo
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.rules.cluster_memory import master_missing


class ReplicaStatus(Struct, frozen=True):
    """The status of one replica. When it did not answer, `error` is the name of the error, and `runtime` is empty.

    An expected broker that is not registered has its last known address, None if it was never seen.
    """

    broker: BrokerData
    broker_id: int
    address: str | None
    version: str | None = None
    runtime: BrokerRuntime = read_runtime({})
    error: str | None = None


async def fetch_broker_statuses(client: Client, cluster: ClusterInfo) -> tuple[list[ReplicaStatus], list[Failure]]:
    """Return the status of every replica of every broker; one that fails has a row with the error's name."""
    replicas = [
        (broker, broker_id, broker.addresses[broker_id])
        for broker in cluster.brokers
        for broker_id in sorted(broker.addresses)
    ]

    async def ask(index: int) -> ReplicaStatus:
        broker, broker_id, address = replicas[index]
        response = await client.ask(address, headers.get_broker_runtime())
        runtime = read_runtime(bodies.decode_key_values(response.body))
        version = plain_version(runtime.version or version_name(response.version))
        return ReplicaStatus(broker, broker_id, address, version, runtime)

    answers = await ask_all(range(len(replicas)), ask)
    rows, failures = [], []
    for index, (broker, broker_id, address) in enumerate(replicas):
        error = answers.failed.get(index)
        if error is None:
            rows.append(answers.ok[index])
        else:
            rows.append(ReplicaStatus(broker, broker_id, address, error=error.name))
            failures.append(Failure(broker.broker_name, "runtime", error))
    for broker in cluster.brokers:
        gone = master_missing(broker, client.clock.now_ms())
        if gone is not None:
            last_address = None if broker.absence is None else broker.absence.address
            rows.append(ReplicaStatus(broker, MASTER_ID, last_address, error=gone.name))
            failures.append(Failure(broker.broker_name, "runtime", gone))
    return rows, failures
