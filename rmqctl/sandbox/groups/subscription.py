"""The subscription of a group or a single pull to a topic (SubscriptionData, FilterAPI)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import Struct

from rmqctl.protocol.codes import ResponseCode
from rmqctl.rules.message_filters.tags import tag_code
from rmqctl.sandbox.request import RefusalError

ALL = "*"
# Longer expressions are parsed each time, so that the cache stays small.
_MAX_REMEMBERED_LENGTH = 4096


class SubscriptionData(Struct, frozen=True):
    """One topic of a subscription. `version_ms` is from the clock of the client that sent it."""

    topic: str
    expression: str | None
    tags: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset()
    version_ms: int = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False

    @property
    def is_by_tag(self) -> bool:
        """Whether it filters by tags (ExpressionType.isTagType)."""
        return self.expression_type in ("TAG", "")

    @classmethod
    def from_wire(cls, item: dict[str, Any], now_ms: int) -> SubscriptionData:
        """Read it from a heartbeat; missing fields get Java's defaults.

        Raises RefusalError without a topic, AttributeError, TypeError, ValueError for other JSON.
        """
        topic, expression, version = item.get("topic"), item.get("subString"), item.get("subVersion")
        if topic is None:
            raise RefusalError(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: a subscription to no topic")
        return cls(
            topic=str(topic),
            expression=None if expression is None else str(expression),
            tags=tuple(map(str, item.get("tagsSet") or ())),
            codes=frozenset(map(int, item.get("codeSet") or ())),
            version_ms=now_ms if version is None else int(version),
            expression_type=str(item.get("expressionType", "TAG") or ""),
            class_filter_mode=bool(item.get("classFilterMode", False)),
        )

    def to_wire(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "classFilterMode": self.class_filter_mode, "codeSet": sorted(self.codes),
            "expressionType": self.expression_type, "subString": self.expression, "subVersion": self.version_ms,
            "tagsSet": sorted(self.tags), "topic": self.topic,
        }  # fmt: skip


def parse_subscription(topic: str, expression: str | None, kind: str | None) -> SubscriptionData:
    """Read the subscription of a pull (FilterAPI.build). Raises ValueError for an invalid one.

    An expression with only blanks is accepted, and matches nothing.
    """
    length = len(topic) + len(expression or "") + len(kind or "")
    return (_parse if length > _MAX_REMEMBERED_LENGTH else _parse_once)(topic, expression, kind)


def _parse(topic: str, expression: str | None, kind: str | None) -> SubscriptionData:
    if kind is not None and kind != "TAG":
        if not expression:
            raise ValueError("an expression cannot be empty")
        return SubscriptionData(topic, expression, expression_type=kind)
    if not expression or expression == ALL:
        return SubscriptionData(topic, ALL)
    parts = expression.split("||")
    if not any(parts):
        raise ValueError("the expression names no tag")
    tags = tuple(sorted({part.strip() for part in parts} - {""}))
    return SubscriptionData(topic, expression, tags, frozenset(map(tag_code, tags)))


_parse_once = lru_cache(maxsize=1024)(_parse)
