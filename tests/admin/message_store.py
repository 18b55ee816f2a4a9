"""Messages of a scripted broker, and the answers about them in the ways of real ones, their traps included."""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections.abc import Sequence

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.protocol.versions import V5_0_0
from tests.protocol.records import Record, properties_text
from tests.scripted_peer import Reply, ok, refused

from .cluster import BrokerState, Cluster, Queue

NOW_MS = 1_795_238_400_000


def java_hash(text: str) -> int:
    """Return String.hashCode()."""
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


class Stored:
    """One message: its record and what the broker knows of it without reading it."""

    def __init__(self, record: bytes, stored_at_ms: int, properties: dict[str, str], commit_log_offset: int) -> None:
        self.record, self.stored_at_ms = record, stored_at_ms
        self.properties, self.commit_log_offset = properties, commit_log_offset


class MessageStore:
    """All messages of one broker. `filters_sql` None: it has no enablePropertyFilter."""

    def __init__(self, state: BrokerState, *, sql: dict[str, str] | None = None, index_cap: int = 64) -> None:
        self.state = state
        self.sql = sql  # expression: the tag that it stands for
        self.index_cap = index_cap
        self.most_count = 1_000  # in an answer
        self.queues: dict[tuple[str, int], list[Stored]] = {}
        self.first: dict[tuple[str, int], int] = {}
        self._place = 0

    def put(
        self,
        topic: str,
        queue_id: int,
        *,
        body: bytes = b"hello",
        tag: str | None = None,
        keys: str | None = None,
        uniq: str | None = None,
        at_ms: int | None = None,
        **changes: object,
    ) -> Stored:
        """Store a message; times go up by a second from one to the next unless given."""
        queue = self.queues.setdefault((topic, queue_id), [])
        if at_ms is None:
            at_ms = NOW_MS + len(queue) * 1000
        properties = {name: value for name, value in (("TAGS", tag), ("KEYS", keys), ("UNIQ_KEY", uniq)) if value}
        properties |= changes.pop("more", {})  # type: ignore[arg-type]
        store_host = (bytes([10, 0, 0, 1]), 10911)
        record = Record(
            queue_id=queue_id, queue_offset=len(queue), commit_log_offset=self._place, stored_at_ms=at_ms,
            store_host=store_host, body=body, topic=topic.encode(), properties=properties_text(properties),
        ).but(**changes)  # fmt: skip
        stored = Stored(record, at_ms, properties, self._place)
        self._place += len(record)
        queue.append(stored)
        queues = self.state.topics.setdefault(topic, [])
        while len(queues) <= queue_id:
            queues.append(Queue())
        queues[queue_id].max_offset = len(queue)
        queues[queue_id].last_update_ms = at_ms
        return stored

    def delete_before(self, topic: str, queue_id: int, offset: int) -> None:
        """Let the oldest messages go."""
        self.first[topic, queue_id] = offset
        self.state.topics[topic][queue_id].min_offset = offset

    def table(self) -> dict[int, Reply]:
        """Return the answers by request code."""
        return {
            Q.PULL_MESSAGE: self._pull,
            Q.QUERY_MESSAGE: self._query,
            Q.VIEW_MESSAGE_BY_ID: self._view,
            Q.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            Q.GET_MIN_OFFSET: lambda request: ok(offset=str(self._bounds(request)[1])),
            Q.GET_MAX_OFFSET: lambda request: ok(offset=str(len(self._bounds(request)[0]))),
            Q.CHECK_CLIENT_CONFIG: self._check,
        }

    def _bounds(self, request: Command) -> tuple[list[Stored], int]:
        place = request.ext_fields["topic"], int(request.ext_fields["queueId"])
        return self.queues.get(place, []), self.first.get(place, 0)

    def _pull(self, request: Command) -> Command:
        fields = request.ext_fields
        assert fields["consumerGroup"] == "TOOLS_CONSUMER"
        assert fields["sysFlag"] == ("6" if fields["suspendTimeoutMillis"] != "0" else "4")
        queue, first = self._bounds(request)
        at, count = int(fields["queueOffset"]), min(int(fields["maxMsgNums"]), self.most_count)
        header = {"minOffset": str(first), "maxOffset": str(len(queue)), "suggestWhichBrokerId": "0"}
        if not first <= at < len(queue):
            code = R.PULL_NOT_FOUND if at == len(queue) else R.PULL_OFFSET_MOVED
            return Command(code, {**header, "nextBeginOffset": str(first if at < first else len(queue))})
        matching = []
        while at < len(queue) and len(matching) < count:
            if self._matches(queue[at], fields["subscription"], fields["expressionType"]):
                matching.append(queue[at].record)
            at += 1
        code = R.SUCCESS if matching else R.PULL_RETRY_IMMEDIATELY
        return Command(code, {**header, "nextBeginOffset": str(at)}, b"".join(matching))

    def _matches(self, stored: Stored, expression: str, kind: str) -> bool:
        if kind == "SQL92":
            # A wrong expression filters nothing.
            return self.sql is None or stored.properties.get("TAGS") == self.sql.get(
                expression, stored.properties.get("TAGS")
            )
        if expression == "*":
            return True
        codes = {java_hash(tag.strip()) for tag in expression.split("||")}
        return java_hash(stored.properties.get("TAGS", "")) in codes

    def _search(self, request: Command) -> Command:
        queue, first = self._bounds(request)
        at_ms = int(request.ext_fields["timestamp"])
        times = [stored.stored_at_ms for stored in queue]
        # Halved, as the real ones do: of times that go back one of several.
        later = bisect_left(times, at_ms, first)
        if self.state.version >= V5_0_0:
            return ok(offset=str(later))
        # 4.9: any that was stored then, here the last of them; else the nearer neighbour.
        same = [at for at in range(first, len(queue)) if times[at] == at_ms]
        if same:
            return ok(offset=str(same[-1]))
        if later == len(queue):
            return ok(offset=str(max(first, len(queue) - 1)))
        if later > first and at_ms - times[later - 1] <= times[later] - at_ms:
            return ok(offset=str(later - 1))
        return ok(offset=str(later))

    def _query(self, request: Command) -> Command:
        fields = request.ext_fields
        wanted = java_hash(f"{fields['topic']}#{fields['key']}")
        begin_ms, end_ms = int(fields["beginTimestamp"]), int(fields["endTimestamp"])
        found: list[Stored] = []
        for (topic, _), queue in self.queues.items():
            for stored in queue:
                keys = {*stored.properties.get("KEYS", "").split(" "), stored.properties.get("UNIQ_KEY", "")} - {""}
                hashes = {java_hash(f"{topic}#{key}") for key in keys}
                if wanted in hashes and begin_ms <= stored.stored_at_ms // 1000 * 1000 <= end_ms:
                    found.append(stored)
        found.sort(key=lambda stored: stored.commit_log_offset)
        newest: Sequence[Stored] = found[-min(self.index_cap, int(fields["maxNum"])) :]
        if not newest:
            return refused(R.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
        return ok(b"".join(stored.record for stored in newest))

    def _view(self, request: Command) -> Command:
        place = int(request.ext_fields["offset"])
        for queue in self.queues.values():
            for stored in queue:
                if stored.commit_log_offset == place:
                    return ok(stored.record)
        return refused(R.SYSTEM_ERROR, f"can not find message by the offset, {place}")

    def _check(self, request: Command) -> Command:
        expression = json.loads(request.body)["subscriptionData"]["subString"]
        if self.sql is None:
            return refused(R.SYSTEM_ERROR, "The broker does not support consumer to filter message by SQL92")
        if expression not in self.sql:
            remark = 'org.apache.rocketmq.filter.parser.ParseException: Encountered "=".\nWas expecting one of:\n "NOT"'
            return refused(R.SUBSCRIPTION_PARSE_FAILED, remark)
        return ok()


def damaged(record: bytes) -> bytes:
    """Return a record with a magic that nobody knows."""
    return record[:4] + struct.pack(">I", 0xDEADBEEF) + record[8:]


def message_cluster(*stores: MessageStore) -> Cluster:
    """Return a cluster of the brokers that have these messages."""
    cluster = Cluster(*(store.state for store in stores))
    for store in stores:
        cluster.servers[store.state.name].table |= store.table()
    return cluster
