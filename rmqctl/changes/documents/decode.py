"""Saved plans and receipts are read back and checked: items that rmqctl never writes are refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from rmqctl.admin.brokers.rules.permission import are_permissions
from rmqctl.changes.groups.rules.dead_letter_permission import is_permission_change
from rmqctl.changes.offsets.rules.skips import may_older_skip
from rmqctl.changes.topics.rules.effects import is_config_of
from rmqctl.errors import UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.plan import (
    Author,
    AwaitedWrite,
    CleanStep,
    ConfigItem,
    Consequence,
    Operation,
    Plan,
    PlanItem,
    Route,
    is_config_change,
    subject_kind,
)
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ChangeState, ConfigReceiptItem, Receipt, ReceiptItem, Result, ReturnReceipt, Who
from rmqctl.rules.file_claims import require_kind
from rmqctl.rules.pop_handles import is_handle

from .encode import API_VERSION, PLAN, RECEIPT, sum_of

_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1


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
    cleaning: CleanStep | None = None
    awaits: AwaitedWrite | None = None
    is_there: bool = False
    messages: tuple[ReturnReceipt, ...] = ()

    @property
    def mq(self) -> MessageQueue | None:
        """The queue; None if the item is a broker's configuration."""
        if self.topic is None or self.queue_id is None:
            return None
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


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
    group: str | None
    route: Route
    items: list[_Item]
    topic: str | None = None  # older releases change only groups
    broker: str | None = None
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
    may_skip: bool | None = None
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
        mq = item.mq
        if mq is None:
            configs.append(
                ConfigItem(
                    item.broker_name, _config(item.before), _config(item.target), item.note,
                    item.route or document.route, item.awaits,
                )
            )  # fmt: skip
            continue
        items.append(
            PlanItem(
                mq, _offset(item.before), _offset(item.target), item.route or Route.GROUP_CONFIG,
                item.min_offset, item.max_offset, item.reconsumed, item.skipped, item.lost,
                item.first_store_timestamp, item.note, item.reasons,
                item.reconsumed_min, item.reconsumed_max, item.skipped_min, item.skipped_max,
                item.cleaning, item.awaits, item.is_there,
            )
        )  # fmt: skip
    return (
        Plan(
            id=document.id,
            operation=document.operation,
            created_at_ms=document.created_at_ms,
            cluster=document.cluster,
            brokers=document.brokers,
            group=document.group or "",
            topic=document.topic,
            broker=document.broker,
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
            may_skip=may_older_skip(document.operation, document.asked)
            if document.may_skip is None
            else document.may_skip,
        ),
        document.sha256,
    )


def _is_with_offsets(document: _Document) -> bool:
    """Return whether a plan of an older release deletes a group's offsets as well: it names each of them."""
    return is_config_change(document.operation) and any(
        item.topic is not None and item.target is None for item in document.items
    )


def _check_items(document: _Document, where: str) -> None:
    """Raise UsageError for items that rmqctl never writes."""
    kind = subject_kind(document.operation)
    named = {"group": document.group, "topic": document.topic, "broker": document.broker}
    if [each for each, name in named.items() if name is not None] != [kind]:
        raise UsageError(f"{where} does not name one {kind}.")
    seen: set[tuple[str | None, str, int | None]] = set()
    for item in document.items:
        place = (item.topic, item.broker_name, item.queue_id)
        if place in seen:
            raise UsageError(f"{where} names {item.broker_name}:{item.queue_id} of {item.topic} twice.")
        seen.add(place)
        if item.broker_name not in document.brokers and item.route is not Route.UNSEEN:
            raise UsageError(f"{where} has no address of broker {item.broker_name}.")
        is_queue = item.mq is not None
        wrong_kind = dict if is_queue else int
        numbers = (item.before, item.target, None if item.awaits is None else item.awaits.target)
        if (
            any(isinstance(number, wrong_kind) for number in numbers)
            or any(isinstance(number, int) and not 0 <= number <= _LONG_MAX for number in numbers)
            or not 0 <= (item.queue_id or 0) <= _INT_MAX
            or (not is_queue and (item.topic, item.queue_id) != (None, None))
            or (not is_queue and not is_config_change(document.operation))
            or (item.cleaning is not None and not _is_possible(item))
            or (document.kind == PLAN and item.route is Route.POP_ACK and item.cleaning is None)
        ):
            raise UsageError(f"{where} has an invalid offset or queue at {item.broker_name}.")
        if kind != "group" and (item.topic is not None or not _is_of_subject(item, document)):
            raise UsageError(f"{where} changes more than {kind} {named[kind]}, at {item.broker_name}.")
        is_permission = item.route is Route.UNSEEN or _is_permission_change(item, document.group or "")
        if document.operation is Operation.DLQ_FIX_PERMISSION and not is_permission:
            sentence = f"{where} changes more than the permission of a dead-letter topic, at {item.broker_name}."
            raise UsageError(sentence)


def _is_of_subject(item: _Item, document: _Document) -> bool:
    """Return whether a configuration is that of the document's topic, or broker, before and after."""
    configs, route = (_config(item.before), _config(item.target)), item.route or document.route
    if document.broker is not None:
        is_way = route in (Route.BROKER_CONFIG, Route.NAME_SERVER) and item.broker_name == document.broker
        return is_way and all(each is not None and are_permissions(each) for each in configs)
    has_route = route in (Route.TOPIC_CONFIG, Route.UNSEEN)
    return has_route and all(each is None or is_config_of(document.topic, each) for each in configs)


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
    if item.route in (Route.RETRY_TOPIC, Route.DIRECT):
        return item.before is None and item.target is None and len(offsets) == 1
    if item.route is Route.POP_ACK:
        return item.before == item.target and all(is_handle(each.pop_handle) for each in cleaning.messages)
    has_handles = any(each.pop_handle is not None for each in cleaning.messages)
    return isinstance(item.target, int) and offsets[-1] < item.target and not has_handles


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
        group=document.group or "",
        topic=document.topic,
        broker=document.broker,
        route=document.route,
        asked=document.asked,
        reason=document.reason,
        who=None if user is None or host is None or pid is None else Who(user, host, pid, document.context),
        state=document.change_state,
        items=tuple(
            ReceiptItem(
                mq, _offset(item.before), _offset(item.target), item.route or Route.GROUP_CONFIG,
                item.result, _offset(item.after), item.is_after_known, item.is_pending, item.note,
                item.reconsumed_at_least, item.messages,
            )
            for item in document.items
            if (mq := item.mq) is not None
        ),
        configs=tuple(
            ConfigReceiptItem(
                item.broker_name, _config(item.before), _config(item.target), item.result, _config(item.after),
                item.is_after_known, item.note, item.route or document.route,
            )
            for item in document.items
            if item.mq is None
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
