"""What a member's own settings mean. They win over the group's configuration on the brokers, which is a default."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.model.group import RunningInfo

# Integer.MAX_VALUE: how often a member that consumes in order tries again unless told otherwise.
NO_LIMIT = 2**31 - 1
# DefaultMQPushConsumerImpl.getMaxReconsumeTimes.
DEFAULT_RETRIES = 16


class MemberSettings(Struct, frozen=True):
    """Settings that a client reports of itself, None where it does not. `max_reconsume_times` is -1 by default."""

    consume_from_where: str | None
    max_reconsume_times: int | None
    consume_timeout_ms: int | None
    is_orderly: bool | None
    thread_count: int | None = None
    started_at_ms: int | None = None
    pull_interval_ms: int | None = None


def member_settings(info: RunningInfo) -> MemberSettings:
    """Return what a client reports of its settings."""
    properties = info.properties
    return MemberSettings(
        consume_from_where=properties.get("consumeFromWhere") or None,
        max_reconsume_times=_integer(properties.get("maxReconsumeTimes")),
        consume_timeout_ms=_minutes_ms(properties.get("consumeTimeout")),
        is_orderly={"true": True, "false": False}.get(properties.get("PROP_CONSUMEORDERLY", "").lower()),
        thread_count=_integer(properties.get("PROP_THREADPOOL_CORE_SIZE")),
        started_at_ms=_integer(properties.get("PROP_CONSUMER_START_TIMESTAMP")),
        pull_interval_ms=_integer(properties.get("pullInterval")),
    )


def retry_limit(max_reconsume_times: int | None, *, is_orderly: bool | None) -> int | None:
    """Return how often a push consumer has a message redelivered, None when that is not known.

    Clients send their own limit with every message that failed, and the broker uses it instead of the group's
    retryMaxTimes (SendMessageProcessor.consumerSendMsgBack). -1 is 16 for concurrent members, and no limit for orderly
    ones (ConsumeMessageOrderlyService.getMaxReconsumeTimes).
    """
    if max_reconsume_times is None or (max_reconsume_times < 0 and is_orderly is None):
        return None
    if max_reconsume_times < 0:
        return NO_LIMIT if is_orderly else DEFAULT_RETRIES
    return max_reconsume_times


def limit_words(limit: int) -> str:
    """Return a retry limit in words."""
    return "no limit" if limit == NO_LIMIT else str(limit)


def _integer(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _minutes_ms(text: str | None) -> int | None:
    """Return consumeTimeout in ms. Java's is a whole number of minutes; rmqctl's own consumer has fractions."""
    try:
        minutes = float(text or "")
    except ValueError:
        return None
    return round(minutes * 60_000) if 0 <= minutes < 1e9 else None
