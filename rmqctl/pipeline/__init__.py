"""RocketMQ for Spark: a data source and jobs. The only place that imports pyspark, pyarrow and numpy.

In a notebook:

    import rmqctl.pipeline
    rmqctl.pipeline.register(spark)
    spark.read.format("rocketmq").option("nameServers", "127.0.0.1:9876").option("topic", "Orders").load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "rocketmq"


def register(spark: SparkSession) -> None:
    """Register `format("rocketmq")` in a session, classic or Connect."""
    from .source.data_source import RocketMQDataSource

    spark.dataSource.register(RocketMQDataSource)
