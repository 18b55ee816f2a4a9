"""Read how long a broker keeps messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rmqctl.client.core import Client
from rmqctl.model.route import BrokerData
from rmqctl.protocol import bodies, headers
from rmqctl.rules.progress import retention_ms

from .cluster import settings_once


async def fetch_retention_ms(client: Client, broker: BrokerData) -> int | None:
    """Return how long a broker keeps a message at least, in ms; None when it does not report it. Asks once.

    For the runtime table, which contains the disk usage, a 5.4.0 broker needs 0.1 s. Raises the errors of
    Client.ask_broker().
    """
    return await client.once(("retention", broker.broker_name), lambda: _fetch(client, broker))


async def _fetch(client: Client, broker: BrokerData) -> int | None:
    config, runtime_answer = await asyncio.gather(
        settings_once(client, broker), client.ask_broker(broker, headers.get_broker_runtime())
    )
    runtime = bodies.decode_key_values(runtime_answer.command.body)
    try:
        reserved_hours, disk_used_ratio = int(config["fileReservedTime"]), float(runtime["commitLogDiskRatio"])
        forced_at_ratio = _forced_cleaning_ratio(config)
    except (KeyError, ValueError):
        return None
    # A broker that does not know its disk usage reports -1 (UtilAll.getDiskPartitionSpaceUsedPercent).
    return retention_ms(reserved_hours, disk_used_ratio, forced_at_ratio) if 0 <= disk_used_ratio <= 1 else None


def _forced_cleaning_ratio(config: Mapping[str, str]) -> float:
    """Return the disk usage above which files of any age are deleted (DefaultMessageStore.CleanCommitLogService).

    4.9 reads it from a system property that no request returns, so its default is used. Both versions limit its range.
    """
    if config.get("cleanFileForciblyEnable") == "false":
        return 1.0
    return min(max(float(config.get("diskSpaceCleanForciblyRatio", 85)) / 100, 0.3), 0.85)
