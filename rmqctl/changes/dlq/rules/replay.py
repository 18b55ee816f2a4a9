"""Which properties of a dead letter are sent again, and how its copy is recognised."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.rules.dead_letters import origin_topic

# The property of a replayed message that names the ledger and the position of the dead letter.
MARK = "RMQCTL_REPLAY"
_UNIQ_KEY, _RETRY_TOPIC, _WAIT = "UNIQ_KEY", "RETRY_TOPIC", "WAIT"

# Properties of the failed delivery. DELAY and TIMER would delay the copy, TRAN_MSG would hide it.
_LEFT_OUT = frozenset({
    "1ST_POP_TIME", "CLUSTER", "CONSUME_START_TIME", "DELAY", "INNER_BASE", "INNER_NUM", "MAX_OFFSET",
    "MAX_RECONSUME_TIMES", "MIN_OFFSET", "MSG_REGION", "ORIGIN_GROUP", "PGROUP", "POP_CK", "POP_CK_OFFSET", "REAL_QID",
    "REAL_TOPIC", "RECONSUME_TIME", "RETRY_TOPIC", "TRACE_ON", "TRAN_MSG", "WAIT", "__CRC32#", MARK,
})  # fmt: skip
_LEFT_OUT_PREFIX = "TIMER_"


class ReplayTargetKind(StrEnum):
    """Where dead letters are sent: to the group's retry topic, to each letter's original topic, or to a given one."""

    RETRY = "RETRY"
    ORIGIN = "ORIGIN"
    TOPIC = "TOPIC"


class ReplayTarget(Struct, frozen=True):
    """Where dead letters are sent. `topic` is the given topic, the retry topic for RETRY, or None for ORIGIN."""

    kind: ReplayTargetKind
    topic: str | None

    @property
    def is_retry(self) -> bool:
        """Tell whether only the group itself consumes them again."""
        return self.kind is ReplayTargetKind.RETRY

    def topic_of(self, properties: Mapping[str, str]) -> str | None:
        """Return the topic that a dead letter is sent to.

        Returns None where it does not record its origin, which ORIGIN and RETRY need: it is the target, or the topic
        that the consumer sees.
        """
        if self.kind is ReplayTargetKind.TOPIC:
            return self.topic
        origin = origin_topic(properties)
        return origin if origin is None or self.kind is ReplayTargetKind.ORIGIN else self.topic


def retry_target(group: str) -> ReplayTarget:
    """Return the retry topic of a group as a target."""
    return ReplayTarget(ReplayTargetKind.RETRY, f"{RETRY_PREFIX}{group}")


def replay_properties(
    properties: Mapping[str, str], target: ReplayTarget, *, mark: str, message_id: str
) -> dict[str, str]:
    """Return the properties of the message that is sent.

    Keys, tags, the application's own properties and the ids of the first copy are kept. A dead letter without a unique
    key gets the broker's message id as one, so that its copy can be found. The reconsume count is reset.
    """
    kept = {
        name: value
        for name, value in properties.items()
        if name not in _LEFT_OUT and not name.startswith(_LEFT_OUT_PREFIX)
    }
    kept.setdefault(_UNIQ_KEY, message_id)
    origin = origin_topic(properties)
    if target.is_retry and origin is not None:
        kept[_RETRY_TOPIC] = origin
    kept[_WAIT] = "true"
    kept[MARK] = mark
    return kept


def mark_of(ledger_id: str, broker_name: str, queue_id: int, queue_offset: int) -> str:
    """Return the mark on the copy of a dead letter."""
    return f"{ledger_id} {position_text(broker_name, queue_id, queue_offset)}"


def position_text(broker_name: str, queue_id: int, queue_offset: int) -> str:
    """Return the position of a dead letter as marks name it."""
    return f"{broker_name}:{queue_id}:{queue_offset}"
