"""Plans and receipts as JSON documents, and back: the files that are saved, read and applied later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.plan import (
    Author,
    Awaited,
    Cleaning,
    ConfigItem,
    Consequence,
    Operation,
    Plan,
    PlanItem,
    ReturnedMessage,
    Route,
)
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ChangeState, ConfigReceiptItem, Receipt, ReceiptItem, Result, ReturnReceipt, Who
from rmqctl.ops.rules.dead_letter_permission import is_permission_change
from rmqctl.ops.rules.group_changes import is_group_change
from rmqctl.rules.file_claims import require_kind
from rmqctl.rules.pop_handles import is_handle
from rmqctl.text.times import iso_time

API_VERSION = "rmqctl/v1"
PLAN, RECEIPT = "Plan", "Receipt"
_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as a JSON document, with its checksum."""
    document = {
        "apiVersion": API_VERSION,
        "kind": PLAN,
        "id": plan.id,
        "operation": plan.operation.value,
        "createdAtMs": plan.created_at_ms,
        "createdAtIso": iso_time(plan.created_at_ms),
        "cluster": plan.cluster,
        "brokers": dict(plan.brokers),
        "group": plan.group,
        "route": plan.route.value,
        "asked": plan.asked,
        "timeMs": plan.time_ms,
        "timeIso": iso_time(plan.time_ms),
        "reason": plan.reason,
        "nameServers": list(plan.name_servers),
        "user": None if plan.author is None else plan.author.user,
        "host": None if plan.author is None else plan.author.host,
        "context": None if plan.author is None else plan.author.context,
        "state": plan.state.value,
        "consumeType": plan.consume_type,
        "messageModel": plan.message_model,
        "clientIds": list(plan.client_ids),
        "filters": {topic: list(expressions) for topic, expressions in sorted(plan.filters.items())},
        "configuredAt": list(plan.configured_at),
        "takesOffsets": plan.takes_offsets,
        "topics": [
            {"topic": topic, "brokerName": broker_name, "readQueueNums": count}
            for (topic, broker_name), count in sorted(plan.read_queue_counts.items())
        ],
        "consequences": [{"code": item.code, "text": item.text} for item in plan.consequences],
        "items": [_plan_item(item) for item in plan.items] + [_config_item(item) for item in plan.configs],
    }
    return {**document, "sha256": sum_of(document)}


def _plan_item(item: PlanItem) -> dict[str, Any]:
    change = None if item.before is None or item.target is None else item.target - item.before
    return {
        **_place(item.mq),
        "before": item.before,
        "target": item.target,
        "route": item.route.value,
        "minOffset": item.min_offset,
        "maxOffset": item.max_offset,
        "change": change,
        "reconsumed": item.reconsumed,
        "reconsumedMin": item.reconsumed_min,
        "reconsumedMax": item.reconsumed_max,
        "skipped": item.skipped,
        "skippedMin": item.skipped_min,
        "skippedMax": item.skipped_max,
        "lost": item.lost,
        "firstStoreTimestamp": item.first_store_time_ms,
        "firstStoreTimestampIso": iso_time(item.first_store_time_ms),
        "note": item.note,
        "cleaning": None if item.cleaning is None else _cleaning(item.cleaning),
        "awaits": _awaits(item),
        "reasons": dict(item.reasons),
    }


def _cleaning(cleaning: Cleaning) -> dict[str, Any]:
    return {
        "headOffset": cleaning.head_offset,
        "delayLevel": cleaning.delay_level,
        "maxReconsumeTimes": cleaning.max_reconsume_times,
        "clientId": cleaning.client_id,
        "takenAtMs": cleaning.taken_at_ms,
        "messages": [
            {
                "queueOffset": message.queue_offset,
                "commitLogOffset": message.commit_log_offset,
                "msgId": message.message_id,
                "originTopic": message.origin_topic,
                "reconsumeTimes": message.reconsume_times,
                "popHandle": message.pop_handle,
            }
            for message in cleaning.messages
        ],
    }


def _config_item(item: ConfigItem) -> dict[str, Any]:
    return {
        "brokerName": item.broker_name,
        "before": item.before,
        "target": item.target,
        "route": item.route.value,
        "note": item.note,
        "awaits": _awaits(item),
    }


def _awaits(item: PlanItem | ConfigItem) -> dict[str, Any] | None:
    return None if item.awaits is None else {"receiptId": item.awaits.receipt_id, "target": item.awaits.target}


def _place(mq: MessageQueue) -> dict[str, Any]:
    return {"topic": mq.topic, "brokerName": mq.broker_name, "queueId": mq.queue_id}


def sum_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its own checksum and errors, independent of its layout."""
    kept = {key: value for key, value in document.items() if key not in ("sha256", "errors")}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class _Message(Struct, frozen=True, rename="camel"):
    queue_offset: int
    msg_id: str
    commit_log_offset: int = 0
    origin_topic: str = ""
    reconsume_times: int = 0
    pop_handle: str | None = None
    result: Result = Result.UNKNOWN
    note: str = ""


class _Cleaning(Struct, frozen=True, rename="camel"):
    head_offset: int
    delay_level: int
    max_reconsume_times: int
    messages: list[_Message]
    client_id: str | None = None
    taken_at_ms: int | None = None


class _Awaited(Struct, frozen=True, rename="camel"):
    receipt_id: str
    target: int | dict[str, Any] | None


class _Item(Struct, frozen=True, rename="camel"):
    broker_name: str
    before: int | dict[str, Any] | None
    target: int | dict[str, Any] | None
    note: str = ""
    topic: str | None = None
    queue_id: int | None = None
    route: Route | None = None  # older releases write it for the change only, not for each configuration
    min_offset: int | None = None
    max_offset: int | None = None
    reconsumed: int | None = None
    reconsumed_min: int | None = None
    reconsumed_max: int | None = None
    skipped: int | None = None
    skipped_min: int | None = None
    skipped_max: int | None = None
    lost: int | None = None
    first_store_timestamp: int | None = None
    reasons: dict[str, str] = {}
    result: Result = Result.UNKNOWN
    after: int | dict[str, Any] | None = None
    is_after_known: bool = False
    is_pending: bool = False
    reconsumed_at_least: int | None = None
    cleaning: _Cleaning | None = None
    awaits: _Awaited | None = None
    messages: list[_Message] = []


class _Topic(Struct, frozen=True, rename="camel"):
    topic: str
    broker_name: str
    read_queue_nums: int


class _Document(Struct, frozen=True, rename="camel"):
    kind: str
    id: str
    operation: Operation
    cluster: str
    brokers: dict[str, str]
    group: str
    route: Route
    items: list[_Item]
    asked: str = ""
    reason: str | None = None
    sha256: str | None = None
    created_at_ms: int = 0
    state: GroupState = GroupState.EMPTY
    consume_type: str | None = None
    message_model: str | None = None
    client_ids: tuple[str, ...] = ()
    topics: list[_Topic] = []
    consequences: tuple[Consequence, ...] = ()
    name_servers: tuple[str, ...] = ()
    time_ms: int | None = None
    filters: dict[str, tuple[str, ...]] = {}
    configured_at: tuple[str, ...] = ()
    takes_offsets: bool | None = None
    plan_id: str = ""
    plan_sha256: str = ""
    started_at_ms: int = 0
    ended_at_ms: int | None = None
    user: str | None = None
    host: str | None = None
    pid: int | None = None
    context: str | None = None
    change_state: ChangeState = ChangeState.DONE


def parse_plan(data: bytes, where: str) -> tuple[Plan, str]:
    """Read a saved plan, and its checksum. Raises UsageError if it is not a plan, or was edited."""
    raw, document = _read(data, PLAN, where)
    if document.sha256 != sum_of(raw):
        raise UsageError(
            f"{where} was edited after the plan was made: its checksum does not match.",
            hint="Make a new plan instead of editing one.",
        )
    _check_items(document, where)
    user, host = document.user, document.host
    items, configs = [], []
    for item in document.items:
        if item.topic is None or item.queue_id is None:
            configs.append(
                ConfigItem(
                    item.broker_name, _config(item.before), _config(item.target), item.note,
                    item.route or document.route, _parse_awaits(item),
                )
            )  # fmt: skip
            continue
        items.append(
            PlanItem(
                MessageQueue(item.topic, item.broker_name, item.queue_id), _offset(item.before), _offset(item.target),
                item.route or Route.GROUP_CONFIG,
                item.min_offset, item.max_offset, item.reconsumed, item.skipped, item.lost,
                item.first_store_timestamp, item.note, item.reasons,
                item.reconsumed_min, item.reconsumed_max, item.skipped_min, item.skipped_max,
                _parse_cleaning(item.cleaning), _parse_awaits(item),
            )
        )  # fmt: skip
    return (
        Plan(
            id=document.id,
            operation=document.operation,
            created_at_ms=document.created_at_ms,
            cluster=document.cluster,
            brokers=document.brokers,
            group=document.group,
            route=document.route,
            asked=document.asked,
            reason=document.reason,
            state=document.state,
            consume_type=document.consume_type,
            message_model=document.message_model,
            client_ids=document.client_ids,
            read_queue_counts={(item.topic, item.broker_name): item.read_queue_nums for item in document.topics},
            items=tuple(items),
            configs=tuple(configs),
            consequences=document.consequences,
            author=None if user is None or host is None else Author(user, host, document.context),
            name_servers=document.name_servers,
            time_ms=document.time_ms,
            filters=document.filters,
            configured_at=document.configured_at,
            takes_offsets=_is_with_offsets(document) if document.takes_offsets is None else document.takes_offsets,
        ),
        document.sha256,
    )


def _is_with_offsets(document: _Document) -> bool:
    """Return whether a plan of an older release deletes a group's offsets as well: it names each of them."""
    return is_group_change(document.operation) and any(
        item.topic is not None and item.target is None for item in document.items
    )


def _parse_awaits(item: _Item) -> Awaited | None:
    return None if item.awaits is None else Awaited(item.awaits.receipt_id, item.awaits.target)


def _parse_cleaning(cleaning: _Cleaning | None) -> Cleaning | None:
    if cleaning is None:
        return None
    messages = tuple(
        ReturnedMessage(
            each.queue_offset,
            each.commit_log_offset,
            each.msg_id,
            each.origin_topic,
            each.reconsume_times,
            each.pop_handle,
        )
        for each in cleaning.messages
    )
    return Cleaning(
        cleaning.head_offset, cleaning.delay_level, cleaning.max_reconsume_times, messages, cleaning.client_id,
        cleaning.taken_at_ms,
    )  # fmt: skip


def _check_items(document: _Document, where: str) -> None:
    """Raise UsageError for items that rmqctl never writes."""
    seen: set[tuple[str | None, str, int | None]] = set()
    for item in document.items:
        place = (item.topic, item.broker_name, item.queue_id)
        if place in seen:
            raise UsageError(f"{where} names {item.broker_name}:{item.queue_id} of {item.topic} twice.")
        seen.add(place)
        if item.broker_name not in document.brokers and item.route is not Route.UNSEEN:
            raise UsageError(f"{where} has no address of broker {item.broker_name}.")
        is_queue = item.topic is not None and item.queue_id is not None
        wrong_kind = dict if is_queue else int
        numbers = (item.before, item.target, None if item.awaits is None else item.awaits.target)
        if (
            any(isinstance(number, wrong_kind) for number in numbers)
            or any(isinstance(number, int) and not 0 <= number <= _LONG_MAX for number in numbers)
            or not 0 <= (item.queue_id or 0) <= _INT_MAX
            or (not is_queue and (item.topic, item.queue_id) != (None, None))
            or (not is_queue and not is_group_change(document.operation))
            or (item.cleaning is not None and not _is_possible(item))
            or (document.kind == PLAN and item.route is Route.POP_ACK and item.cleaning is None)
        ):
            raise UsageError(f"{where} has an invalid offset or queue at {item.broker_name}.")
        is_permission = item.route is Route.UNSEEN or _is_permission_change(item, document.group)
        if document.operation is Operation.DLQ_FIX_PERMISSION and not is_permission:
            sentence = f"{where} changes more than the permission of a dead-letter topic, at {item.broker_name}."
            raise UsageError(sentence)


def _is_permission_change(item: _Item, group: str) -> bool:
    return item.topic is None and is_permission_change(group, _config(item.before), _config(item.target))


def _is_possible(item: _Item) -> bool:
    """Return whether a queue only moves past messages that are sent back, the first of them its head.

    A popped queue does not move, and each of its messages has a handle.
    """
    cleaning = item.cleaning
    if cleaning is None or not cleaning.messages:
        return False
    offsets = [message.queue_offset for message in cleaning.messages]
    if offsets != sorted(set(offsets)) or offsets[0] != cleaning.head_offset:
        return False
    if item.route is Route.POP_ACK:
        return item.before == item.target and all(is_handle(each.pop_handle) for each in cleaning.messages)
    has_handles = any(each.pop_handle is not None for each in cleaning.messages)
    return isinstance(item.target, int) and offsets[-1] < item.target and not has_handles


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as a JSON document."""
    who = receipt.who
    return {
        "apiVersion": API_VERSION,
        "kind": RECEIPT,
        "id": receipt.id,
        "planId": receipt.plan_id,
        "planSha256": receipt.plan_sha256,
        "operation": receipt.operation.value,
        "startedAtMs": receipt.started_at_ms,
        "startedAtIso": iso_time(receipt.started_at_ms),
        "endedAtMs": receipt.ended_at_ms,
        "endedAtIso": iso_time(receipt.ended_at_ms),
        "cluster": receipt.cluster,
        "brokers": dict(receipt.brokers),
        "group": receipt.group,
        "route": receipt.route.value,
        "asked": receipt.asked,
        "reason": receipt.reason,
        "user": None if who is None else who.user,
        "host": None if who is None else who.host,
        "pid": None if who is None else who.pid,
        "context": None if who is None else who.context,
        "changeState": receipt.state.value,
        "items": [
            {
                **_place(item.mq),
                "before": item.before,
                "target": item.target,
                "after": item.after,
                "isAfterKnown": item.is_after_known,
                "route": item.route.value,
                "result": item.result.value,
                "isPending": item.is_pending,
                "reconsumedAtLeast": item.reconsumed_at_least,
                "note": item.note,
                "messages": [_returned(each) for each in item.messages],
            }
            for item in receipt.items
        ]
        + [
            {
                "brokerName": item.broker_name,
                "before": item.before,
                "target": item.target,
                "after": item.after,
                "isAfterKnown": item.is_after_known,
                "route": item.route.value,
                "result": item.result.value,
                "note": item.note,
            }
            for item in receipt.configs
        ],
    }


def _returned(message: ReturnReceipt) -> dict[str, Any]:
    return {
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "result": message.result.value,
        "note": message.note,
    }


def parse_receipt(data: bytes, where: str) -> Receipt:
    """Read a saved receipt. Raises UsageError if it is not a receipt."""
    _, document = _read(data, RECEIPT, where)
    _check_items(document, where)
    user, host, pid = document.user, document.host, document.pid
    return Receipt(
        id=document.id,
        plan_id=document.plan_id,
        plan_sha256=document.plan_sha256,
        operation=document.operation,
        started_at_ms=document.started_at_ms,
        ended_at_ms=document.ended_at_ms,
        cluster=document.cluster,
        brokers=document.brokers,
        group=document.group,
        route=document.route,
        asked=document.asked,
        reason=document.reason,
        who=None if user is None or host is None or pid is None else Who(user, host, pid, document.context),
        state=document.change_state,
        items=tuple(
            ReceiptItem(
                MessageQueue(item.topic, item.broker_name, item.queue_id), _offset(item.before), _offset(item.target),
                item.route or Route.GROUP_CONFIG,
                item.result, _offset(item.after), item.is_after_known, item.is_pending, item.note,
                item.reconsumed_at_least,
                tuple(ReturnReceipt(each.queue_offset, each.msg_id, each.result, each.note) for each in item.messages),
            )
            for item in document.items
            if item.topic is not None and item.queue_id is not None
        ),
        configs=tuple(
            ConfigReceiptItem(
                item.broker_name, _config(item.before), _config(item.target), item.result, _config(item.after),
                item.is_after_known, item.note, item.route or document.route,
            )
            for item in document.items
            if item.topic is None or item.queue_id is None
        ),
    )  # fmt: skip


def _offset(value: int | dict[str, Any] | None) -> int | None:
    return value if isinstance(value, int) else None


def _config(value: int | dict[str, Any] | None) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _read(data: bytes, kind: str, where: str) -> tuple[dict[str, Any], _Document]:
    try:
        raw = json.loads(data)
        if not isinstance(raw, dict):
            raise UsageError(f"{where} is not a {kind.lower()}.", hint=_HINTS[kind])
        require_kind(where, raw.get("kind"), (kind,), hint=_HINTS[kind])
        if raw.get("apiVersion") != API_VERSION:
            raise UsageError(
                f"{where} has apiVersion {raw.get('apiVersion')!r}; this rmqctl reads {API_VERSION}.", hint=_HINTS[kind]
            )
        return raw, msgspec.convert(raw, _Document)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise UsageError(f"{where} cannot be read as a {kind.lower()}: {error}.", hint=_HINTS[kind]) from None


_HINTS = {
    PLAN: "To make a plan: rmqctl offset reset GROUP ... --plan FILE",
    RECEIPT: "A change prints its receipt with -o json; rmqctl offset history lists the receipts of this machine.",
}
