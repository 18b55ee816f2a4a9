"""Message filters of subscriptions, and the SQL92 expressions of groups (ConsumerFilterManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from rmqctl.rules.message_filters import sql92
from rmqctl.rules.message_filters.sql92 import Properties
from rmqctl.sandbox.storage.store import AcceptsCode, AcceptsMessage

from .subscription import ALL, SubscriptionData

SQL92 = "SQL92"

# Longer expressions would block the brokers: an expression of this length compiles in a tenth of a second.
_MAX_EXPRESSION_LENGTH = 32_768

# ConsumerFilterManager.MS_24_HOUR: how long expressions of groups without members are kept.
_DEAD_KEPT_S = 24 * 3600.0


class EntryFilter(Struct, frozen=True):
    """Conditions on the tag's code in the queue's entry and on the message's properties; None accepts everything."""

    accepts_code: AcceptsCode | None = None
    accepts_properties: Callable[[Properties], bool] | None = None

    @property
    def accepts_message(self) -> AcceptsMessage | None:
        """The condition on the properties, as a condition on the stored message."""
        accepts = self.accepts_properties
        return None if accepts is None else lambda message: accepts(message.properties)


EVERYTHING = EntryFilter()


def build_filter(subscription: SubscriptionData, *, has_text_operators: bool = True) -> EntryFilter:
    """Return the filter of a subscription (ExpressionMessageFilter). Raises ValueError for an invalid expression."""
    if subscription.is_by_tag:
        return tag_filter(subscription)
    if subscription.class_filter_mode:
        return EVERYTHING
    compiled = compile_expression(
        subscription.expression or "", subscription.expression_type, has_text_operators=has_text_operators
    )
    return EntryFilter(accepts_properties=compiled.matches)


def tag_filter(subscription: SubscriptionData) -> EntryFilter:
    """Return the tag filter of a subscription."""
    if subscription.expression == ALL or subscription.class_filter_mode:
        return EVERYTHING
    return EntryFilter(accepts_code=subscription.codes.__contains__)


def compile_expression(expression: str, kind: str, *, has_text_operators: bool) -> sql92.Sql92Filter:
    """Compile an expression that is not a list of tags. Raises ValueError."""
    if kind != SQL92:
        raise ValueError(f"filters of type {kind} are not supported")
    if len(expression) > _MAX_EXPRESSION_LENGTH:
        raise ValueError(f"the expression is longer than {_MAX_EXPRESSION_LENGTH} characters")
    return sql92.parse(expression, has_text_operators=has_text_operators)


class _Expression(Struct):
    """A group's expression for a topic (ConsumerFilterData); `died_at_s` is when its last subscriber left."""

    text: str
    kind: str
    version_ms: int
    compiled: sql92.Sql92Filter
    died_at_s: float | None = None

    def is_forgotten(self, now_s: float) -> bool:
        """Return whether it has had no subscriber for longer than it is kept."""
        return self.died_at_s is not None and now_s - self.died_at_s >= _DEAD_KEPT_S


class ExpressionTable:
    """The groups' SQL92 expressions by (topic, group).

    They are independent of the subscriptions: they outlive the members, and an expression is ignored unless its version
    is newer than that of the known one.
    """

    def __init__(self, monotonic_s: Callable[[], float], *, has_text_operators: bool) -> None:
        self._monotonic_s = monotonic_s
        self._has_text_operators = has_text_operators
        self._expressions: dict[tuple[str, str], _Expression] = {}

    def find(self, topic: str, group: str) -> tuple[sql92.Sql92Filter, int] | None:
        """Return an expression and its version, None when there is none."""
        found = self._known((topic, group))
        return None if found is None else (found.compiled, found.version_ms)

    def _known(self, key: tuple[str, str]) -> _Expression | None:
        found = self._expressions.get(key)
        if found is not None and found.is_forgotten(self._monotonic_s()):
            del self._expressions[key]
            return None
        return found

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Register the expressions of one group from a heartbeat."""
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not subscription.is_by_tag and subscription.expression:
                self._take(group, subscription, subscription.expression)
        self._bury(group, spared=topics)

    def forget(self, group: str) -> None:
        """Note that a group no longer has members."""
        self._bury(group, spared=set())

    def _take(self, group: str, subscription: SubscriptionData, text: str) -> None:
        key, kind, version_ms = (subscription.topic, group), subscription.expression_type, subscription.version_ms
        old = self._known(key)
        if old is not None and version_ms <= old.version_ms:
            if version_ms == old.version_ms:
                old.died_at_s = None
            return
        if old is not None and (old.text, old.kind) == (text, kind):
            old.version_ms, old.died_at_s = version_ms, None
            return
        try:
            compiled = compile_expression(text, kind, has_text_operators=self._has_text_operators)
        except ValueError:
            self._expressions.pop(key, None)
            return
        self._expressions[key] = _Expression(text, kind, version_ms, compiled)

    def _bury(self, group: str, *, spared: set[str]) -> None:
        now_s = self._monotonic_s()
        for (topic, owner), expression in list(self._expressions.items()):
            if owner == group and topic not in spared and expression.died_at_s is None:
                expression.died_at_s = now_s
            elif expression.is_forgotten(now_s):
                del self._expressions[topic, owner]
