"""Dead letters as a Parquet file. Needs pyarrow, not Spark."""

from __future__ import annotations

from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

_TIME = pa.timestamp("ms", tz="UTC")
_NUMBERS = {"queueId": pa.int32(), "reconsumeTimes": pa.int32(), "flag": pa.int32(), "sysFlag": pa.int32()}
_LONGS = ("queueOffset", "commitLogOffset")
_TIMES = ("bornTimestamp", "storeTimestamp")
_ROWS_A_GROUP = 10_000


class LetterParquet:
    """Writes rows, dicts of the same keys, into row groups. `bodyBase64` becomes the column `bodyBytes`."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[dict[str, Any]] = []

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Add rows."""
        for row in rows:
            row["bodyBytes"] = row.pop("bodyBase64")
            row["properties"] = list(row["properties"].items())
        self._rows += rows
        if len(self._rows) >= _ROWS_A_GROUP:
            self._flush()

    def end(self) -> None:
        """Write the rest and the footer."""
        self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._out, SCHEMA)
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, SCHEMA))
            self._rows = []


def _kind(name: str) -> pa.DataType:
    if name in _NUMBERS:
        return _NUMBERS[name]
    return pa.int64() if name in _LONGS else _TIME if name in _TIMES else pa.string()


SCHEMA = pa.schema(
    [
        *(
            (name, _kind(name))
            for name in (
                "group", "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "msgId", "offsetMsgId",
                "originTopic", "originMessageId", "givenUp", "reconsumeTimes", "tags", "keys", "bornTimestamp",
                "bornHost", "storeTimestamp", "storeHost", "flag", "sysFlag",
            )
        ),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.string()),
        ("bodyBytes", pa.binary()),
    ]
)  # fmt: skip
