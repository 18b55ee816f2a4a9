"""What a dead letter's properties show: its origin, and why delivery was given up."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class DeadLetterReason(StrEnum):
    """Why a message is a dead letter, as far as its properties show."""

    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"  # the client's limit is recorded, and was reached
    AFTER_RETRIES = "AFTER_RETRIES"  # mostly at the limit, which is not recorded, or rejected by a listener earlier
    FIRST_FAILURE = "FIRST_FAILURE"  # the listener rejected it (a delay level below 0), or the limit is 0
    SENT_THERE = "SENT_THERE"  # no consumer gave it up: a client sent it to the dead-letter topic


def origin_topic(properties: Mapping[str, str]) -> str | None:
    """Return the topic that a dead letter was first sent to, None where that is not recorded.

    Brokers keep it in RETRY_TOPIC over all retries. DLQ_ORIGIN_TOPIC is reserved, but brokers do not write it.
    """
    return properties.get("RETRY_TOPIC") or properties.get("DLQ_ORIGIN_TOPIC") or None


def origin_message_id(properties: Mapping[str, str]) -> str | None:
    """Return the id under which a consumer first sent the message back, None where that is not recorded.

    It is the broker's id of the first copy; orderly consumers use the unique key instead.
    """
    return properties.get("DLQ_ORIGIN_MESSAGE_ID") or properties.get("ORIGIN_MESSAGE_ID") or None


def given_up(reconsume_times: int, properties: Mapping[str, str]) -> DeadLetterReason | None:
    """Return why a message is a dead letter, None where its properties do not show it."""
    limit = properties.get("MAX_RECONSUME_TIMES", "")
    if limit.isascii() and limit.isdigit() and len(limit) <= 10 and reconsume_times >= int(limit):
        return DeadLetterReason.MAX_RECONSUME_TIMES
    if reconsume_times > 1:
        return DeadLetterReason.AFTER_RETRIES
    if reconsume_times == 1:
        return DeadLetterReason.FIRST_FAILURE
    return DeadLetterReason.SENT_THERE if origin_topic(properties) is None else None
