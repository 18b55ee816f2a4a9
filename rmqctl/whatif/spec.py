"""Read a description of groups from JSON: `--spec FILE`."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Options

from .group_snapshot import ID_LIMIT, GroupSnapshot

_HINT = 'Use for example {"queues": [{"topic": "T", "brokerName": "broker-a", "queueId": 0}], "clients": ["c1", "c2"]}.'


class _Queue(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    topic: str
    broker_name: str
    queue_id: int

    def to_queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


class _Weight(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    topic: str
    broker_name: str
    queue_id: int
    weight: float


class _Options(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    virtual_nodes: int = 10
    rooms: list[str] = field(default_factory=list)
    queues: list[_Queue] | dict[str, list[_Queue]] | None = None
    site_of: str | dict[str, str] = "-"
    inner: str = "averagely"
    pop_share_queue_num: int = 0
    weights: list[_Weight] = field(default_factory=list)
    custom: dict[str, Any] = field(default_factory=dict)


class _Item(Struct, frozen=True, forbid_unknown_fields=True):
    queues: list[_Queue]
    clients: list[str]
    strategy: str | None = None
    options: _Options = _Options()


class SpecItem(Struct, frozen=True):
    """One group of a description; `strategy` None: not given. `site_of` is a text, or the rooms by name.

    `options` do not include the rooms of `site_of`, which have to be resolved first.
    """

    snapshot: GroupSnapshot
    strategy: str | None
    options: Options
    site_of: str | Mapping[str, str]


def parse_spec(data: bytes) -> list[SpecItem]:
    """Parse a description, one group or a list of groups. Raises UsageError, which names the invalid item."""
    try:
        raw = msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"The description is not JSON ({error}).", hint=_HINT) from None
    items: Sequence[Any] = raw if isinstance(raw, list) else [raw]
    if not items:
        raise UsageError("The description contains no group.", hint=_HINT)
    return [
        _read(item, "The description" if raw is item else f"Group {number}") for number, item in enumerate(items, 1)
    ]


def _read(raw: Any, where: str) -> SpecItem:
    try:
        item = msgspec.convert(raw, _Item)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{where} is invalid: {error}.", hint=_HINT) from None
    queues = [queue.to_queue() for queue in item.queues]
    seen: set[MessageQueue] = set()
    for queue in queues:
        if queue in seen:
            raise UsageError(f"{where} has queue {queue} twice.")
        if not queue.topic or not queue.broker_name or not 0 <= queue.queue_id < ID_LIMIT:
            raise UsageError(f"{where}: invalid queue {queue}: it needs a topic, a broker and an id from 0.")
        seen.add(queue)
    if not queues:
        raise UsageError(f"{where} has no queues.", hint=_HINT)
    if not item.clients:
        raise UsageError(f"{where} has no clients.", hint=_HINT)
    if "" in item.clients:
        raise UsageError(f"{where} has a client without an id.")
    unweighed = set(seen)
    for weighed in item.options.weights:
        queue = MessageQueue(weighed.topic, weighed.broker_name, weighed.queue_id)
        if queue not in seen:
            raise UsageError(f"{where} gives a weight to {queue}, which is not one of its queues.")
        if queue not in unweighed:
            raise UsageError(f"{where} gives a weight to {queue} twice.")
        unweighed.remove(queue)
    return SpecItem(
        GroupSnapshot(tuple(queues), tuple(item.clients)), item.strategy, _options(item.options), item.options.site_of
    )


def _options(given: _Options) -> Options:
    configured: Sequence[MessageQueue] | Mapping[str, Sequence[MessageQueue]] | None = None
    if isinstance(given.queues, dict):
        configured = {client_id: [queue.to_queue() for queue in queues] for client_id, queues in given.queues.items()}
    elif given.queues is not None:
        configured = [queue.to_queue() for queue in given.queues]
    return Options(
        virtual_nodes=given.virtual_nodes,
        rooms=tuple(given.rooms),
        configured=configured,
        inner=given.inner,
        share_count=given.pop_share_queue_num,
        weights={MessageQueue(item.topic, item.broker_name, item.queue_id): item.weight for item in given.weights},
        custom=given.custom,
    )
