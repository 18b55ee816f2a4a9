"""The meaning of a member's own settings, which override the group's configuration on the brokers."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.model.group import RunningInfo

# Integer.MAX_VALUE: the default retry limit of orderly members.
NO_LIMIT = 2**31 - 1
# DefaultMQPushConsumerImpl.getMaxReconsumeTimes.
DEFAULT_RETRIES = 16


class MemberSettings(Struct, frozen=True):
    """Settings that a client reports, None where it does not; `max_reconsume_times` is -1 by default.

    `batch_size` is the largest number of messages that one call of the listener gets.
    """

    consume_from_where: str | None
    max_reconsume_times: int | None
    consume_timeout_ms: int | None
    is_orderly: bool | None
    thread_count: int | None = None
    started_at_ms: int | None = None
    pull_interval_ms: int | None = None
    batch_size: int | None = None


def member_settings(info: RunningInfo) -> MemberSettings:
    """Return the settings that a client reports."""
    properties = info.properties
    batch_size = _integer(properties.get("consumeMessageBatchMaxSize"))
    return MemberSettings(
        consume_from_where=properties.get("consumeFromWhere") or None,
        max_reconsume_times=_integer(properties.get("maxReconsumeTimes")),
        consume_timeout_ms=_minutes_ms(properties.get("consumeTimeout")),
        is_orderly={"true": True, "false": False}.get(properties.get("PROP_CONSUMEORDERLY", "").lower()),
        thread_count=_integer(properties.get("PROP_THREADPOOL_CORE_SIZE")),
        started_at_ms=_integer(properties.get("PROP_CONSUMER_START_TIMESTAMP")),
        pull_interval_ms=_integer(properties.get("pullInterval")),
        batch_size=batch_size if batch_size is not None and batch_size > 0 else None,
    )


def retry_limit(max_reconsume_times: int | None, *, is_orderly: bool | None) -> int | None:
    """Return how often a push consumer has a message redelivered, None when that is unknown.

    Clients send their own limit with every failed message, and the broker uses it instead of the group's
    retryMaxTimes (SendMessageProcessor.consumerSendMsgBack). -1 means 16 for concurrent members, and no limit for
    orderly ones (ConsumeMessageOrderlyService.getMaxReconsumeTimes).
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
