"""Dead letters as a Parquet file, read back by pyarrow: no Spark takes part."""

from __future__ import annotations

from io import BytesIO

import pyarrow.parquet as pq

from rmqctl.admin.groups.letter_reading import Letter
from rmqctl.admin.messages.pull import FoundMessage
from rmqctl.cli.dlq.letter_files import FIELDS, FILES, letter_row
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import iter_messages
from tests.protocol.records import Record, properties_text

_MQ = MessageQueue("%DLQ%G", "broker-a", 0)
_BODIES = (b"text \xe2\x82\xac", b"\xff\x00", b"")


def test_nothing_is_lost() -> None:
    properties = {"RETRY_TOPIC": "orders", "TAGS": "A", "UNIQ_KEY": "U"}
    records = [Record(body=body, properties=properties_text(properties)).but(queue_offset=7) for body in _BODIES]
    out = BytesIO()
    file = FILES["parquet"](out)
    for message in iter_messages(b"".join(records)):
        found = FoundMessage(_MQ, message.queue_offset, message)
        file.write([letter_row(Letter(found, message, message.properties, message.body))])
    file.end()
    rows = pq.read_table(BytesIO(out.getvalue())).to_pylist()
    assert [row["bodyBytes"] for row in rows] == list(_BODIES)
    assert [row["body"] for row in rows] == ["text €", None, ""]
    assert [dict(row["properties"]) for row in rows] == [properties] * 3
    assert set(rows[0]) == set(FIELDS) - {"bodyBase64"} | {"bodyBytes"}
    assert (rows[0]["group"], rows[0]["originTopic"], rows[0]["queueOffset"], rows[0]["msgId"]) == (
        "G", "orders", 7, "U",
    )  # fmt: skip


def test_without_dead_letters_it_has_the_columns() -> None:
    out = BytesIO()
    FILES["parquet"](out).end()
    assert pq.read_table(BytesIO(out.getvalue())).num_rows == 0
