"""Plans and receipts as JSON documents: what is printed and saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from rmqctl.model.plan import ConfigItem, Plan, PlanItem, Subject
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, ReceiptItem
from rmqctl.text.times import time_fields

API_VERSION = "rmqctl/v1"
PLAN, RECEIPT = "Plan", "Receipt"


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as a JSON document, with its checksum."""
    document = {
        "apiVersion": API_VERSION,
        "kind": PLAN,
        "id": plan.id,
        "operation": plan.operation.value,
        **time_fields("createdAtMs", plan.created_at_ms),
        "cluster": plan.cluster,
        "brokers": dict(plan.brokers),
        **_subject(plan.subject),
        "route": plan.route.value,
        "asked": plan.asked,
        **time_fields("timeMs", plan.time_ms),
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
        "maySkip": plan.may_skip,
        "topics": [
            {"topic": topic, "brokerName": broker_name, "readQueueNums": count}
            for (topic, broker_name), count in sorted(plan.read_queue_counts.items())
        ],
        "consequences": [{"code": item.code, "text": item.text} for item in plan.consequences],
        "items": [_plan_item(item) for item in plan.items] + [_config_item(item) for item in plan.configs],
    }
    return {**document, "sha256": sum_of(document)}


def _subject(subject: Subject) -> dict[str, str | None]:
    return {
        "group": subject.group if subject.kind == "group" else None,
        "topic": subject.topic,
        "broker": subject.broker,
    }


def _plan_item(item: PlanItem) -> dict[str, Any]:
    change = None if item.before is None or item.target is None else item.target - item.before
    change = 0 if item.is_there else change
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
        **time_fields("firstStoreTimestamp", item.first_store_time_ms),
        "note": item.note,
        "cleaning": msgspec.to_builtins(item.cleaning),
        "awaits": msgspec.to_builtins(item.awaits),
        "isThere": item.is_there,
        "reasons": dict(item.reasons),
    }


def _config_item(item: ConfigItem) -> dict[str, Any]:
    return {
        "brokerName": item.broker_name,
        "before": item.before,
        "target": item.target,
        "route": item.route.value,
        "note": item.note,
        "awaits": msgspec.to_builtins(item.awaits),
    }


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
        **time_fields("startedAtMs", receipt.started_at_ms),
        **time_fields("endedAtMs", receipt.ended_at_ms),
        "cluster": receipt.cluster,
        "brokers": dict(receipt.brokers),
        **_subject(receipt.subject),
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
                **_result(item),
                "isPending": item.is_pending,
                "reconsumedAtLeast": item.reconsumed_at_least,
                "note": item.note,
                "messages": [msgspec.to_builtins(each) for each in item.messages],
            }
            for item in receipt.items
        ]
        + [{"brokerName": item.broker_name, **_result(item), "note": item.note} for item in receipt.configs],
    }


def _result(item: ReceiptItem | ConfigReceiptItem) -> dict[str, Any]:
    return {
        "before": item.before,
        "target": item.target,
        "after": item.after,
        "isAfterKnown": item.is_after_known,
        "route": item.route.value,
        "result": item.result.value,
    }


def _place(mq: MessageQueue) -> dict[str, Any]:
    return {"topic": mq.topic, "brokerName": mq.broker_name, "queueId": mq.queue_id}


def sum_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its own checksum and errors, independent of its layout."""
    kept = {key: value for key, value in document.items() if key not in ("sha256", "errors")}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
