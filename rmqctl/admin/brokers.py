"""Brokers: which there are, how they run."""

from __future__ import annotations

from math import isfinite

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.route import Broker, ClusterInfo
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.versions import version_name

from .results import ask_all


async def fetch_cluster(client: Client) -> ClusterInfo:
    """Return all brokers that the name server knows. Raises NotFoundError when it knows none."""
    response = await client.ask_name_server(headers.get_cluster_info())
    cluster = bodies.decode_cluster_info(response.body)
    if not cluster.brokers:
        raise NotFoundError(
            "A broker", f"at name server {client.name_servers[0]}", hint="No broker has registered with it, or not yet."
        )
    return cluster


class BrokerStatus(Struct, frozen=True):
    """One replica of a broker: how it runs. None: it didn't answer, or didn't say; `error` tells which.

    Rates are messages a second over the last 10 s; disk ratios are 0 to 1.
    """

    broker: Broker
    broker_id: int
    address: str
    version: str | None = None
    in_tps: float | None = None
    out_tps: float | None = None
    put_today_count: int | None = None
    get_today_count: int | None = None
    commit_log_disk_ratio: float | None = None
    earliest_message_at_ms: int | None = None
    boot_at_ms: int | None = None
    is_active: bool | None = None
    error: str | None = None


async def fetch_broker_statuses(client: Client, cluster: ClusterInfo) -> tuple[list[BrokerStatus], list[Failure]]:
    """Ask every replica of every broker how it runs; one that fails keeps its row, with the error's name."""
    replicas = [
        (broker, broker_id, broker.addresses[broker_id])
        for broker in cluster.brokers
        for broker_id in sorted(broker.addresses)
    ]

    async def ask(index: int) -> BrokerStatus:
        broker, broker_id, address = replicas[index]
        response = await client.ask(address, headers.get_broker_runtime())
        table = bodies.decode_key_values(response.body)
        return BrokerStatus(
            broker, broker_id, address,
            version=_version(table.get("brokerVersionDesc"), response.version),
            in_tps=_first_rate(table, "putTps"),
            out_tps=_first_rate(table, "getTransferredTps", "getTransferedTps"),
            put_today_count=_difference(table, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
            get_today_count=_difference(table, "msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
            commit_log_disk_ratio=_ratio(table.get("commitLogDiskRatio")),
            earliest_message_at_ms=_time(table.get("earliestMessageTimeStamp")),
            boot_at_ms=_time(table.get("bootTimestamp")),
            is_active={"true": True, "false": False}.get(table.get("brokerActive", "")),
        )  # fmt: skip

    answers = await ask_all(range(len(replicas)), ask)
    rows, failures = [], []
    for index, (broker, broker_id, address) in enumerate(replicas):
        error = answers.failed.get(index)
        if error is None:
            rows.append(answers.ok[index])
        else:
            rows.append(BrokerStatus(broker, broker_id, address, error=error.name))
            failures.append(Failure(broker.broker_name, "runtime", error))
    for broker in cluster.brokers:
        if not broker.addresses:
            gone = UnreachableError(broker.broker_name, "the name server knows no address of it")
            failures.append(Failure(broker.broker_name, "runtime", gone))
    return rows, failures


def _version(described: str | None, ordinal: int) -> str:
    return (described or version_name(ordinal)).removeprefix("V").replace("_", ".")


def _first_rate(table: dict[str, str], *names: str) -> float | None:
    """Return the 10 s rate of "10s 60s 600s"; it is empty in a broker's first seconds."""
    for name in names:
        for part in table.get(name, "").split():
            return _float(part)
    return None


def _difference(table: dict[str, str], now: str, morning: str) -> int | None:
    try:
        return int(table[now]) - int(table[morning])
    except (KeyError, ValueError):
        return None


def _float(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) else None  # Java divides by zero into NaN, which JSON can't hold


def _ratio(text: str | None) -> float | None:
    ratio = _float(text)
    return ratio if ratio is not None and 0 <= ratio <= 1 else None


def _time(text: str | None) -> int | None:
    try:
        at_ms = int(text or "")
    except ValueError:
        return None
    return at_ms if at_ms > 0 else None
