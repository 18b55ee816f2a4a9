"""Recordings: samples of groups as JSON lines, written while a group is watched and read later.

Each line is one sample (wrapped here):

    {"apiVersion": "rmqctl/v1", "kind": "Sample", "cluster": "DefaultCluster", "group": "pay",
     "atMs": 1795345920123, "atIso": "2026-11-22T10:52:00.123Z", "monotonicS": 12.5, "state": "ONLINE",
     "clientIds": ["10.0.0.7@1"], "silentIds": [], "membersAtMs": 1795345918456,
     "clients": [{"clientId": "10.0.0.7@1", "language": "JAVA", "version": 473, "isOrderly": false,
                  "consumeRtMs": 1.5}],
     "queues": [{"topic": "orders", "brokerName": "broker-a", "queueId": 0, "consumerOffset": 20, "maxOffset": 100,
                 "minOffset": 0, "lastTimestamp": 1795345919001, "isNoneStored": false, "isPopped": false,
                 "owners": [{"clientId": "10.0.0.7@1", "commitOffset": 23, "cachedMsgCount": 3,
                             "cachedMsgMinOffset": 23, "isDropped": false, "begunAtMs": 1795345000000,
                             "consumedAtMs": 1795345919950, "mayForget": false}],
                 "reasons": {}}],
     "errors": [{"brokerName": "broker-b", "what": "members", "name": "UNREACHABLE", "message": "b:10911: refused."}]}

A null is unknown; `reasons` of its queue gives the reason by key. `minOffset`, `lastTimestamp` and `isNoneStored` are
null or missing when the recorder did not ask. `isPopped`, `owners` and `reasons` may be missing when they are false or
empty. `membersAtMs` is when members were read, null or missing if that was at `atMs`. `clients`, whose `version` is
MQVersion's ordinal, is missing in older recordings. A `consumerOffset` of 0 with `isNoneStored` null is the broker's
answer, which can also mean "none stored".
Readers ignore unknown keys: a version may add keys, but never removes them. Credentials are never written.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import ClientSample, GroupSample, OwnerSample, QueueSample
from rmqctl.text.times import time_fields

API_VERSION = "rmqctl/v1"
SAMPLE = "Sample"

_Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_QueueId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Time = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]  # up to the year 9999
_HINT = "Use a file that rmqctl recorded; if the recording was cut short, remove its last line."


class QueueDetail(Struct, frozen=True):
    """What a recorder may know about a queue in addition to a sample; None when it did not ask.

    `last_timestamp_ms`: when the last consumed message was stored. `is_none_stored`: whether no offset is stored, which
    cannot be seen from a sample's 0.
    """

    min_offset: int | None = None
    last_timestamp_ms: int | None = None
    is_none_stored: bool | None = None


class RecordedSample(Struct, frozen=True):
    """One line of a recording. `cluster` is the name of the group's cluster, None when it was not recorded."""

    sample: GroupSample
    cluster: str | None = None
    details: Mapping[MessageQueue, QueueDetail] = field(default_factory=dict)


class _Owner(Struct, frozen=True, rename="camel"):
    client_id: str
    commit_offset: _Long | None
    cached_msg_count: _Long
    cached_msg_min_offset: _Long
    is_dropped: bool = False
    begun_at_ms: _Long | None = None
    consumed_at_ms: _Long | None = None
    may_forget: bool = False


class _Queue(Struct, frozen=True, rename="camel"):
    topic: str
    broker_name: str
    queue_id: _QueueId
    consumer_offset: _Long | None
    max_offset: _Long | None
    min_offset: _Long | None = None
    last_timestamp: _Long | None = None
    is_none_stored: bool | None = None
    is_popped: bool = False
    owners: tuple[_Owner, ...] = ()
    reasons: dict[str, Unknown] = {}


class _Error(Struct, frozen=True, rename="camel"):
    broker_name: str | None
    what: str
    name: str
    message: str


class _Client(Struct, frozen=True, rename="camel"):
    client_id: str
    language: str
    version: int
    is_orderly: bool | None = None
    consume_rt_ms: float | None = None


class _Line(Struct, frozen=True, rename="camel"):
    group: str
    at_ms: _Time
    monotonic_s: float
    state: GroupState
    client_ids: tuple[str, ...]
    queues: tuple[_Queue, ...]
    api_version: Literal["rmqctl/v1"]
    kind: Literal["Sample"]
    cluster: str | None = None
    silent_ids: tuple[str, ...] = ()
    members_at_ms: _Time | None = None
    errors: tuple[_Error, ...] = ()
    clients: tuple[_Client, ...] = ()


def write_sample(
    sample: GroupSample, *, cluster: str | None = None, details: Mapping[MessageQueue, QueueDetail] | None = None
) -> str:
    """Return a sample as a line of ASCII, without the newline."""
    document = {
        "apiVersion": API_VERSION,
        "kind": SAMPLE,
        "cluster": cluster,
        "group": sample.group,
        **time_fields("atMs", sample.at_ms),
        "monotonicS": sample.monotonic_s,
        "state": sample.state.value,
        "clientIds": list(sample.client_ids),
        "silentIds": list(sample.silent_ids),
        "membersAtMs": sample.members_at_ms,
        "clients": [
            {
                "clientId": client_id,
                "language": client.language,
                "version": client.version,
                "isOrderly": client.is_orderly,
                "consumeRtMs": client.consume_rt_ms,
            }
            for client_id, client in sample.clients.items()
        ],
        "queues": [_queue_item(queue, (details or {}).get(mq, _NO_DETAIL)) for mq, queue in sample.queues.items()],
        "errors": [
            {
                "brokerName": failure.broker_name,
                "what": failure.what,
                "name": failure.error.name,
                "message": failure.error.sentence,
            }
            for failure in sample.failures
        ],
    }
    # ASCII, because a client's name can contain half a surrogate pair, which cannot be written to a file.
    return json.dumps(document, separators=(",", ":"))


_NO_DETAIL = QueueDetail()


def _queue_item(queue: QueueSample, detail: QueueDetail) -> dict[str, Any]:
    item = {
        "topic": queue.mq.topic,
        "brokerName": queue.mq.broker_name,
        "queueId": queue.mq.queue_id,
        "consumerOffset": queue.consumer_offset,
        "maxOffset": queue.max_offset,
    }
    optional = {
        "minOffset": detail.min_offset,
        "lastTimestamp": detail.last_timestamp_ms,
        "isNoneStored": detail.is_none_stored,
        "isPopped": queue.is_popped or None,
        "owners": [
            {
                "clientId": owner.client_id,
                "commitOffset": owner.commit_offset,
                "cachedMsgCount": owner.cached_count,
                "cachedMsgMinOffset": owner.cached_min_offset,
                "isDropped": owner.is_dropped,
                "begunAtMs": owner.begun_at_ms,
                "consumedAtMs": owner.consumed_at_ms,
                "mayForget": owner.may_forget,
            }
            for owner in queue.owners
        ],
        "reasons": {name: reason.value for name, reason in queue.reasons.items()},
    }
    # A recording of a large cluster has millions of queues, most of which need none of these.
    return item | {key: value for key, value in optional.items() if value is not None and value not in ([], {})}


def read_recording(lines: Iterable[bytes], name: str) -> Iterator[RecordedSample]:
    """Yield a recording's samples in the order of its lines, for example those of a file opened with "rb".

    `name` is the file's, for errors. Empty lines are skipped. Raises UsageError, with the line number, for a line that
    is not one of rmqctl's samples or is of another version.
    """
    for number, line in enumerate(lines, 1):
        data = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if data.strip():
            yield _read_line(data, f"{name}, line {number}")


def _read_line(data: bytes, where: str) -> RecordedSample:
    try:
        raw = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise UsageError(f"{where}: the line is not complete JSON.", hint=_HINT) from None
    if not isinstance(raw, dict) or raw.get("kind") != SAMPLE:
        raise UsageError(f"{where}: the line is not a sample of a group.", hint=_HINT)
    if raw.get("apiVersion") != API_VERSION:
        raise UsageError(
            f"{where}: the sample has version {raw.get('apiVersion')!r}, but this rmqctl reads {API_VERSION}.",
            hint="Use the rmqctl that wrote it, or a newer one.",
        )
    try:
        read = msgspec.convert(raw, _Line)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: cannot read the sample: {error}.", hint=_HINT) from None
    if not math.isfinite(read.monotonic_s):
        raise UsageError(f"{where}: monotonicS is not a finite number.", hint=_HINT)
    found = _recorded(read)
    if len(found.sample.queues) < len(read.queues):
        raise UsageError(f"{where}: the sample contains a queue twice.", hint=_HINT)
    return found


def _recorded(read: _Line) -> RecordedSample:
    queues: dict[MessageQueue, QueueSample] = {}
    details: dict[MessageQueue, QueueDetail] = {}
    for item in read.queues:
        mq = MessageQueue(item.topic, item.broker_name, item.queue_id)
        queues[mq] = QueueSample(
            mq=mq,
            consumer_offset=item.consumer_offset,
            max_offset=item.max_offset,
            owners=tuple(
                OwnerSample(
                    client_id=owner.client_id,
                    commit_offset=owner.commit_offset,
                    cached_count=owner.cached_msg_count,
                    cached_min_offset=owner.cached_msg_min_offset,
                    is_dropped=owner.is_dropped,
                    begun_at_ms=owner.begun_at_ms,
                    consumed_at_ms=owner.consumed_at_ms,
                    may_forget=owner.may_forget,
                )
                for owner in item.owners
            ),
            is_popped=item.is_popped,
            reasons=item.reasons,
        )
        detail = QueueDetail(item.min_offset, item.last_timestamp, item.is_none_stored)
        if detail != _NO_DETAIL:
            details[mq] = detail
    sample = GroupSample(
        at_ms=read.at_ms,
        monotonic_s=read.monotonic_s,
        group=read.group,
        state=read.state,
        client_ids=read.client_ids,
        queues=queues,
        silent_ids=read.silent_ids,
        failures=tuple(Failure(each.broker_name, each.what, _error(each)) for each in read.errors),
        members_at_ms=read.members_at_ms,
        clients={
            each.client_id: ClientSample(each.language, each.version, each.is_orderly, each.consume_rt_ms)
            for each in read.clients
        },
    )
    return RecordedSample(sample, read.cluster, details)


def _error(read: _Error) -> RmqctlError:
    """Return the recorded error; only its name preserves its kind."""
    error = RmqctlError(read.message)
    error.name = read.name
    return error
