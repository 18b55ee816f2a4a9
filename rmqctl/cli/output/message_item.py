"""Messages as items of JSON, rows of a table, and shown in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.protocol.properties import KEYS, split_keys
from rmqctl.text.durations import short_duration
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted

from .body import BodyStyle, body_fields, body_lines, excerpt, unreadable
from .listing import Column, Item, Section

if TYPE_CHECKING:
    from rmqctl.admin.messages.pull import FoundMessage
    from rmqctl.protocol.message import StoredMessage
    from rmqctl.rules.message_wait import Transaction, Wait

_SYSTEM = (
    "commitLogOffset", "msgId", "offsetMsgId", "keys", "tags", "bornTimestamp", "bornTimestampIso", "bornHost",
    "storeTimestamp", "storeTimestampIso", "storeHost", "reconsumeTimes", "flag", "sysFlag",
    "preparedTransactionOffset", "bodySize", "body", "bodyTruncated", "bodyCrcOk", "properties",
)  # fmt: skip


def message_item(found: FoundMessage, style: BodyStyle) -> dict[str, Any]:
    """Return one message as a JSON item. What cannot be read is null, and `error` has the reason."""
    item: dict[str, Any] = {
        "topic": found.mq.topic,
        "brokerName": found.mq.broker_name,
        "queueId": found.mq.queue_id,
        "queueOffset": found.queue_offset,
        **dict.fromkeys(_SYSTEM),
        "error": None,
        "reasons": {},
    }
    if found.wait is not None:
        item["waits"] = _waits(found.wait)
    if found.transaction is not None:
        item["transaction"] = _transaction(found.transaction)
    message = found.message
    if message is None:
        error = found.error
        item["error"] = error.sentence if error is not None else None
        item["reasons"] = dict.fromkeys(_SYSTEM, error.name if error is not None else "UNKNOWN")
        return item
    item |= _fixed(message)
    reasons: dict[str, str] = item["reasons"]
    properties: dict[str, str] = {}
    try:
        properties = message.properties
        item |= {"topic": message.topic, "properties": properties, "msgId": message.message_id}
        item |= {"keys": split_keys(properties.get(KEYS)), "tags": message.tags}
        if item["tags"] is None:
            reasons["tags"] = "NOT_SET"
    except RmqctlError as error:
        item["error"] = error.sentence
        reasons |= dict.fromkeys(("properties", "msgId", "keys", "tags"), error.name)
    try:
        body = message.body
        item["bodySize"] = len(body)
        fields = body_fields(body, properties, found.meant_for.topic, style)
    except RmqctlError as error:
        item["error"] = error.sentence
        fields = unreadable(error)
        if item["bodySize"] is None:
            reasons["bodySize"] = error.name
    if "reason" in fields:
        reasons["body"] = fields.pop("reason")
    if item["bodyCrcOk"] is None:
        reasons["bodyCrcOk"] = "NO_CRC"
    return item | fields


def unread_messages(items: Iterable[Item]) -> list[Failure]:
    """Return a failure for each message that cannot be read completely; every command that shows messages uses this."""
    failures = []
    for item in items:
        if item["error"] is not None:
            error = RmqctlError(item["error"])
            error.name = item["reasons"].get("properties") or item["reasons"]["body"]
            failures.append(Failure(item["brokerName"], f"message {message_name(item)}", error))
    return failures


def _waits(wait: Wait) -> dict[str, Any]:
    reasons = {} if wait.delay_level is not None else {"delayLevel": "TIMER"}
    if wait.queue_id is None:
        reasons["queueId"] = "NOT_REPORTED"
    if wait.reason is not None:
        reasons |= dict.fromkeys(("dueTimestamp", "dueTimestampIso"), wait.reason)
    if wait.overdue_ms is None:
        reasons["overdueMs"] = wait.overdue_reason or "UNKNOWN"
    return {
        "topic": wait.topic,
        "queueId": wait.queue_id,
        "delayLevel": wait.delay_level,
        **time_fields("dueTimestamp", wait.due_at_ms),
        "overdueMs": wait.overdue_ms,
        "reasons": reasons,
    }


def _transaction(transaction: Transaction) -> dict[str, Any]:
    reasons = {} if transaction.state is not None else {"state": transaction.reason or "UNKNOWN"}
    unreported = {"queueId": transaction.queue_id, "producerGroup": transaction.producer_group}
    return {
        "topic": transaction.topic,
        "queueId": transaction.queue_id,
        "state": transaction.state,
        "producerGroup": transaction.producer_group,
        "checkCount": transaction.check_count,
        "reasons": reasons | {name: "NOT_REPORTED" for name, value in unreported.items() if value is None},
    }


_STATES = {
    "PREPARED": "prepared, not committed",
    "COMMITTED": "committed",
    "ENDED": "ended: rolled back, or committed and no longer in the index",
    "GIVEN_UP": "given up by the broker, not committed",
}


def _show_transaction(transaction: Item) -> str:
    state = _STATES.get(transaction["state"]) or f"prepared, state unknown: {transaction['reasons']['state']}"
    parts = [state, f"producer group {transaction['producerGroup'] or '-'}"]
    if transaction["checkCount"]:
        parts.append(f"checked {counted(transaction['checkCount'], 'time')}")
    elif transaction["state"] == "PREPARED":
        parts.append("not checked yet")
    return "; ".join(parts)


def _show_waits(item: Item) -> str:
    if (transaction := item.get("transaction")) is not None:
        return _show_transaction(transaction)
    waits = item.get("waits")
    if waits is None:
        return "-"
    where = "in the timer" if waits["delayLevel"] is None else f"in delay level {waits['delayLevel']}"
    until = waits["dueTimestampIso"]
    if not until:
        return f"{where}, due time unknown: {waits['reasons']['dueTimestamp']}"
    if waits["overdueMs"]:
        return f"{where}, was due {short_duration(waits['overdueMs'])} ago, not delivered"
    if waits["reasons"].get("overdueMs") == "LEFT":
        return f"left delay level {waits['delayLevel']}, was due {until}; the index does not have it in its topic"
    return f"{where} until {until}"


def _fixed(message: StoredMessage) -> dict[str, Any]:
    return {
        "commitLogOffset": message.commit_log_offset,
        "offsetMsgId": message.offset_id,
        **time_fields("bornTimestamp", message.born_at_ms),
        "bornHost": message.born_host,
        **time_fields("storeTimestamp", message.stored_at_ms),
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "bodyCrcOk": message.body_crc_ok,
    }


def message_name(item: Item) -> str:
    """Return the name of a message: its id, or its queue and offset if the id cannot be read."""
    return str(item["msgId"] or f"{item['topic']}@{item['brokerName']}:{item['queueId']}#{item['queueOffset']}")


def message_sections(item: Item, style: BodyStyle) -> Sequence[Section]:
    """Return a message in full: where it is, every system field, its properties, its body."""
    facts = [
        (name, _fact(item, name))
        for name in _SYSTEM
        if name not in ("properties", "body", "bodyTruncated", "bornTimestamp", "storeTimestamp", "keys")
    ]
    facts.insert(3, ("keys", " ".join(item["keys"] or ()) or "-"))
    for name in ("waits", "transaction"):
        if name in item:
            facts.insert(0, (name, f"{_show_waits(item)}, for {item[name]['topic']}"))
    if item["error"] is not None:
        facts.append(("error", item["error"]))
    title = f"{item['topic']}@{item['brokerName']}:{item['queueId']} offset {item['queueOffset']}"
    sections = [Section(title=title, facts=facts)]
    if item["properties"]:
        sections.append(Section(title="properties", facts=sorted(item["properties"].items())))
    if item["bodySize"] is not None and style.mode != "none":
        kind, lines = body_lines(item, style.mode)
        cut = f", the first {style.max_bytes} of them shown" if item["bodyTruncated"] else ""
        sections.append(
            Section(
                title=f"body ({kind}, {counted(item['bodySize'], 'byte')}{cut})", facts=[(line, "") for line in lines]
            )
        )
    return sections


def _fact(item: Item, name: str) -> str:
    value = item[name]
    if value is None:
        return "-"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _is_bad(item: Item) -> bool:
    return item["error"] is not None or item["bodyCrcOk"] is False


MESSAGE_COLUMNS = (
    Column("STORED", "storeTimestamp", is_time=True),
    Column("TOPIC", "topic", is_wide=True),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    Column("OFFSET", "queueOffset", is_number=True),
    Column("TAGS", "tags", gives_way=True),
    Column("KEYS", "keys", show=lambda item: " ".join(item["keys"] or ()) or "-", gives_way=True),
    Column("RECONSUMED", "reconsumeTimes", is_number=True, is_wide=True),
    Column("BORN", "bornTimestamp", is_time=True, is_wide=True),
    Column("BORN-HOST", "bornHost", is_wide=True),
    Column("MSG-ID", "msgId", is_wide=True),
    Column("OFFSET-MSG-ID", "offsetMsgId", is_wide=True),
    Column("SIZE", "bodySize", is_number=True, gives_way=1),
    Column("BODY", "body", show=excerpt, is_alarm=_is_bad),
)
_WAITS = Column("WAITS", "waits", show=_show_waits, is_wide=True)
# For commands that find single messages: also where these wait.
FOUND_COLUMNS = (*MESSAGE_COLUMNS[:-1], _WAITS, MESSAGE_COLUMNS[-1])


def found_columns(items: Sequence[Item]) -> Sequence[Column]:
    """Return FOUND_COLUMNS for these messages: every table has the column WAITS if one of them waits."""
    if not any("waits" in item or "transaction" in item for item in items):
        return FOUND_COLUMNS
    return [replace(column, is_wide=False) if column is _WAITS else column for column in FOUND_COLUMNS]
