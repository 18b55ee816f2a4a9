"""Verdicts and alerts as items, as `rmqctl watch` prints them and notifiers get them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rmqctl.diagnose.finding import command
from rmqctl.rules.health import WORST_FIRST, Health
from rmqctl.text.durations import short_duration
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted

from .health import GroupHealth, QueueHealth
from .incidents import Alert, AlertKind
from .rates import MessageRates

_MOST_SENTENCES = 5


def health_item(group: GroupHealth, before: Health | None) -> dict[str, Any]:
    """Return the verdict on a group; `before` is its previous health, None at first."""
    lag, time_lag, worst, rates = group.lag(), group.time_lag(), group.worst, group.rates
    reasons = {
        "before": "NO_SAMPLES" if before is None else None,
        "lag": lag.reason,
        "timeLagMs": "OLDER_THAN_SAMPLES" if time_lag.at_least_ms else lag.reason or "NOT_REPORTED",
        "produceMsgsPerS": lag.reason or "TOO_FEW_SAMPLES",
        "consumeMsgsPerS": lag.reason or "TOO_FEW_SAMPLES",
        "memberCount": "NOT_REPORTED",
        "worstQueue": "NO_SAMPLES",
    }
    item = {
        **time_fields("at", group.at_ms),
        "cluster": group.key.cluster,
        "group": group.key.group,
        "health": group.health.value,
        "before": None if before is None else before.value,
        "lag": lag.value,
        "lagAtLeast": lag.at_least,
        "unreadableMessageCount": sum(group.unreadable.values()),
        "timeLagMs": time_lag.ms,
        "timeLagMsAtLeast": time_lag.at_least_ms,
        **_rate_item(rates),
        "memberCount": group.member_count,
        "queueCount": len(group.queues),
        "worstQueue": None if worst is None else str(worst.mq),
        "rule": group.cause,
        "reason": group.reason,
        "queues": [queue_item(each) for each in group.queues if each.verdict.health is not Health.OK],
    }
    return {**item, "reasons": {key: reason for key, reason in reasons.items() if item[key] is None}}


def _rate_item(rates: MessageRates) -> dict[str, float | None]:
    named = {"produceMsgsPerS": rates.produce_msgs_per_s, "consumeMsgsPerS": rates.consume_msgs_per_s}
    return {key: None if rate is None else round(rate, 2) for key, rate in named.items()}


def queue_item(queue: QueueHealth) -> dict[str, Any]:
    """Return the verdict on a queue, and its last sample."""
    row = queue.row
    return {
        "topic": queue.mq.topic,
        "brokerName": queue.mq.broker_name,
        "queueId": queue.mq.queue_id,
        "health": queue.verdict.health.value,
        "rule": queue.verdict.cause.value,
        "reason": queue.verdict.reason,
        "consumerOffset": None if row is None else row.consumer_offset,
        "maxOffset": None if row is None else row.max_offset,
        "lag": None if row is None else row.lag,
        "timeLagMs": queue.time_lag.ms,
        "timeLagMsAtLeast": queue.time_lag.at_least_ms,
        **_rate_item(queue.rates),
        "clientIds": [] if row is None else list(row.client_ids),
    }


def notification(alerts: Sequence[Alert]) -> dict[str, Any]:
    """Return the alerts of one round as notifiers get them: one document, however many groups a failure concerns."""
    items = [_alert_item(alert) for alert in sorted(alerts, key=_urgency)]
    sentences = [item["text"] for item in items[:_MOST_SENTENCES]]
    if len(items) > _MOST_SENTENCES:
        sentences.append(f"{counted(len(items) - _MOST_SENTENCES, 'more group')}.")
    return {
        "apiVersion": "rmqctl/v1",
        "kind": "AlertList",
        "text": "\n".join(sentences),
        "alertCount": len(items),
        "items": items,
    }


def _urgency(alert: Alert) -> tuple[bool, int]:
    """Return what alerts are sorted by; the health of a group that is gone counts no longer."""
    return alert.is_gone, WORST_FIRST.index(alert.group.health)


def _alert_item(alert: Alert) -> dict[str, Any]:
    group = alert.group
    return {
        "alert": alert.kind.value,
        "incident": alert.incident,
        "text": _sentence(alert),
        "worst": alert.worst.value,
        "gone": alert.is_gone,
        **time_fields("since", alert.since_ms),
        "nextCommand": command("diagnose", group.key.group),
        **health_item(group, None),
    }


def _sentence(alert: Alert) -> str:
    group = alert.group
    name = f"{group.key.group} ({group.key.cluster})" if group.key.cluster else group.key.group
    for_ = short_duration(group.at_ms - alert.since_ms)
    if alert.kind is AlertKind.RESOLVED:
        now = "no longer exists or has no queues" if alert.is_gone else f"is {group.health}"
        return f"Resolved: {name} {now}; it was {alert.worst} at worst, and the incident lasted {for_}."
    where = f" {group.worst.mq}:" if group.worst is not None else ""
    is_repeated = alert.kind is AlertKind.REPEATED
    still, began = ("Still ", f" The incident began {for_} ago.") if is_repeated else ("", "")
    return f"{still}{group.health}: {name}.{where} {group.reason}.{began}"


def environment_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what a command gets in its environment: the text, the number of alerts, and values of the worst one."""
    worst = document["items"][0]
    names = ("alert", "incident", "cluster", "group", "health", "rule")
    values = {f"RMQCTL_{name.upper()}": worst[name] for name in names}
    return {**values, "RMQCTL_TEXT": document["text"], "RMQCTL_ALERT_COUNT": str(document["alertCount"])}
