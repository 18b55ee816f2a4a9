"""Sends the lanes of a replay by tasks of Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rmqctl.changes.dlq.lanes import BrokerLanes, Lanes, OnStored
from rmqctl.changes.dlq.outcome import ReplayOutcome
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.pipeline.source.task_access import TaskAccess
from rmqctl.pipeline.spark_errors import explain

from .shards import Errand, Shard, ShardResult, share_out
from .task import send_shard

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# Fewer messages are sent from here: tasks would take longer to start.
_FEW_COUNT = 200
_SHARDS_PER_SLOT = 2
# An attempt takes at most this time, and at most half of the time after which Spark gives up an executor.
_MOST_S = 60.0


class SparkLanes:
    """Sends lanes by tasks: a lane is sent by one task, and by a later attempt only what its broker does not have."""

    def __init__(
        self, spark: SparkSession, access: TaskAccess, ledger_id: str, producer_group: str, here: BrokerLanes,
        outcome: ReplayOutcome,
    ) -> None:  # fmt: skip
        self._context = spark.sparkContext
        self._errand = Errand(access, ledger_id, producer_group, _attempt_s(self._context))
        self._outcome = outcome
        self._here = here

    async def send(self, lanes: Lanes, on_stored: OnStored, failing: set[tuple[str, str]]) -> Mapping[int, RmqctlError]:
        """Send as LaneSender says. If Spark gives up, all lanes end with an error of which the result is unknown."""
        if sum(len(request.rows) for lane in lanes for request in lane) < _FEW_COUNT:
            return await self._here.send(lanes, on_stored, failing)
        try:
            count = _SHARDS_PER_SLOT * max(1, self._context.defaultParallelism)
        except Exception as error:  # noqa: BLE001 -- py4j and pyspark have many
            return dict.fromkeys(range(len(lanes)), explain(error))
        shards = share_out(lanes, count, self._errand)
        try:
            results = await asyncio.to_thread(self._run, shards)
        except Exception as error:  # noqa: BLE001 -- py4j and pyspark have many
            lost = UnreachableError("Spark", f"its tasks failed, {explain(error).sentence.rstrip('.')}")
            return dict.fromkeys(range(len(lanes)), lost)
        errors: dict[int, RmqctlError] = {}
        for result in results:
            for number, offsets, is_safe in result.stored:
                on_stored(number, offsets, is_safe)
            errors |= result.errors
            failing |= result.failing
            self._outcome.found_count += result.found_count
        return errors

    def _run(self, shards: list[Shard]) -> list[ShardResult]:
        return self._context.parallelize(shards, len(shards)).map(send_shard).collect()


def _attempt_s(context: SparkContext) -> float:
    conf = context._jsc.sc().conf()  # noqa: SLF001 -- the public API has only the text, in one of Spark's units
    lost_s: int = conf.getTimeAsSeconds("spark.network.timeout", "120s")
    return min(_MOST_S, lost_s / 2)
