"""Brings answers into a form in which two servers' can be compared: what must differ gets a name in angle brackets."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from rmqctl.protocol.command import Command
from rmqctl.protocol.java_json import ObjectMap, loads
from rmqctl.protocol.message import MAGIC_V1, MAGIC_V2, StoredMessage, iter_messages
from rmqctl.protocol.properties import decode_properties

# Times of a run: timers of three days ahead, messages asked for of a month back. Others are the script's own numbers.
_PAST_MS, _FUTURE_MS = 31 * 86_400_000, 8 * 86_400_000
_MOMENT = re.compile(r"<time ([+-]\d+) ms>")
# How much later one of two servers that are asked at once may get to the same request on a busy machine.
_APART_MS = 10_000
_TIME = re.compile(r"(?<![0-9A-Fa-f])1[0-9]{12}(?![0-9A-Fa-f])")
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d[# T]\d\d:\d\d:\d\d(?:[:.,]\d{1,3})?")
_ADDRESS = re.compile(r"/?127\.0\.0\.1:(\d{2,5})\b")
_OFFSET_ID = re.compile(r"7F000001([0-9A-F]{8})([0-9A-F]{16})(?![0-9A-F])")
# MessageClientIDSetter's, which a broker makes for a message that comes without one.
_UNIQUE_ID = re.compile(r"(?<![0-9A-F])(?:[0-9A-F]{32}|[0-9A-F]{56})(?![0-9A-F])")
_MAGICS = {MAGIC_V1, MAGIC_V2}

# Pops take the revive queues in turn, whoever asks.
_RECEIPT = re.compile(r"(\d+ <time [^>]+> \d+) [0-7] (\d broker-[ab] \d+)")

# Java writes them out of hash tables and sets.
_SET = "a set in a table"
_TABLES_OF_SETS = ("clusterAddrTable", "groupTopicMap")
_UNORDERED = frozenset({
    _SET,
    "topicList", "groupList", "consumerIdList", "lockOKMQSet", "connectionSet", "tagsSet", "codeSet", "brokerDatas",
    "queueDatas", "consumeTimeSpanSet", "messageQueueAssignments", "consumeStatsList", "data",
    "offsetTable",
})  # fmt: skip
# Tables of the whole broker or cluster, by request code: other tests' topics and groups stand in them as well.
_SHARED_TABLES = {
    21: {"topicConfigTable"}, 43: {"offsetTable", "groupTopicMap"}, 106: {"brokerAddrTable", "clusterAddrTable"},
    201: {"subscriptionGroupTable", "forbiddenTable"}, 206: {"topicList"}, 224: {"topicList"}, 304: {"topicList"},
    305: {"topicList"}, 311: {"topicList"}, 312: {"topicList"}, 313: {"topicList"}, 317: {"consumeStatsList"},
    328: {"data"}, 402: {"messageRequestModeMap"},
}  # fmt: skip
# What every broker of a release has from its start.
_SYSTEM_NAME = re.compile(
    r"TBW102|SELF_TEST_TOPIC|BenchmarkTest|OFFSET_MOVED_EVENT|SCHEDULE_TOPIC_XXXX|RMQ_SYS_TRANS_(OP_)?HALF_TOPIC|broker-[ab]"
    r"|DefaultCluster(_REPLY_TOPIC)?|rmq_sys_(wheel_timer|REVIVE_LOG_DefaultCluster|SYNC_BROKER_MEMBER_broker-[ab])"
    r"|RMQ_SYS_ROCKSDB_TRANS_(OP_)?HALF_TOPIC|TOOLS_CONSUMER|FILTERSRV_CONSUMER|SELF_TEST_C_GROUP|CID_RMQ_SYS_TRANS"
    r"|CID_ONS(API_PERMISSION|API_OWNER|API_PULL|-HTTP-PROXY)"
)
# Ext fields that tell of the whole broker, and fields of JSON that depend on when one asks.
_SHARED_COUNTS = frozenset({"totalTopicNum", "totalGroupNum", "indexLastUpdatePhyoffset", "indexLastUpdateTimestamp"})
_RATES = re.compile(r"tps|avgpt", re.IGNORECASE)


class Normaliser:
    """Normalises the answers of one run of a script against one server. Commit log offsets are numbered as they come.

    `suffix` is what the run's own topics and groups end in, `started_ms` what its times are told from.
    """

    def __init__(self, namesrv: str, broker: str, suffix: str, started_ms: int) -> None:
        self._ports = {namesrv.rpartition(":")[2]: "<name server>", broker.rpartition(":")[2]: "<broker>"}
        self._suffix = suffix
        self._started_ms = started_ms
        self._log_offsets: dict[int, str] = {}

    def answer(self, code: int, answer: Command | None) -> Any:
        """Return an answer to a request of a code, as plain values."""
        if answer is None:
            return "<silence>"
        fields = {
            name: "<count>" if name in _SHARED_COUNTS else self._field(name, text)
            for name, text in answer.ext_fields.items()
        }
        body = self._body(code, answer.body)
        return {
            "code": answer.code, "remark": None if answer.remark is None else self._remark(answer.remark),
            "language": answer.language, "version": answer.version, "flag": answer.flag, "extFields": fields,
            "body": body,
        }  # fmt: skip

    def push(self, command: Command) -> Any:
        """Return a request that the server sent, as plain values."""
        fields = {name: self._field(name, text) for name, text in command.ext_fields.items()}
        body = self._body(command.code, command.body)
        return {"code": command.code, "flag": command.flag, "extFields": fields, "body": body}

    def _field(self, name: str, text: str) -> Any:
        if name in ("tranStateTableOffset", "commitLogOffset") and text.isdigit():
            return self._log_offset(int(text))
        if name == "properties":
            return {name: self.text(value) for name, value in decode_properties(text).items()}
        if text[:1] == "{":
            return self._json(0, json.loads(text), name)
        return self.text(text)

    def _remark(self, text: str) -> str:
        known = {str(offset): name for offset, name in self._log_offsets.items() if offset > 99}
        return re.sub(r"\b\d{3,}\b(?! ms>)", lambda match: known.get(match[0], match[0]), self.text(text))

    def _body(self, code: int, body: bytes) -> Any:
        if not body:
            return None
        if len(body) > 8 and int.from_bytes(body[4:8], "big", signed=True) in _MAGICS:
            return [self._message(message) for message in iter_messages(body)]
        if body[:1] in b"{[":
            return self._json(code, loads(body), "")
        lines = (line.partition("=") for line in body.decode(errors="replace").splitlines())
        return {name: self.text(value) for name, _, value in sorted(lines)}

    def _message(self, message: StoredMessage) -> Any:
        properties = decode_properties(message._topic_and_properties()[1].decode(errors="replace"))
        return {
            "topic": message.topic, "queueId": message.queue_id, "queueOffset": message.queue_offset,
            "commitLogOffset": self._log_offset(message.commit_log_offset), "flag": message.flag,
            "sysFlag": message.sys_flag, "bornTimestamp": self._number(message.born_at_ms),
            "bornHost": self.text(message.born_host), "storeTimestamp": self._number(message.stored_at_ms),
            "storeHost": self.text(message.store_host), "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": self._log_offset(message.prepared_transaction_offset or -1),
            "body": message.stored_body.decode(errors="backslashreplace"), "bodyCrc": message.body_crc,
            "properties": {name: self.text(value) for name, value in properties.items()},
        }  # fmt: skip

    def _json(self, code: int, value: Any, key: str) -> Any:
        if isinstance(value, ObjectMap):
            return {self._key(name): self._json(code, item, key) for name, item in value.items()}
        if isinstance(value, dict):
            return self._object(code, value, key)
        if isinstance(value, list):
            items = [self._json(code, item, key) for item in value if self._is_ours(code, key, item)]
            if key not in _UNORDERED:
                return items
            # Of a set of texts or numbers, a difference is best told by name.
            plain = all(isinstance(item, str | int) for item in items)
            return dict(Counter(map(str, items))) if plain and items else sorted(items, key=_canonical)
        if isinstance(value, str):
            return self.text(value)
        if key == "physicOffset":
            return self._log_offset(value)
        return self._number(value, key)

    def _object(self, code: int, value: dict[str, Any], key: str) -> Any:
        if {"counter", "timestamp"} <= value.keys() <= {"counter", "timestamp", "stateVersion"}:
            return {**value, "counter": "<count>", "timestamp": "<time>"}
        return {
            self.text(name): self._json(code, item, _SET if key in _TABLES_OF_SETS else name)
            for name, item in sorted(value.items()) if self._is_ours(code, key, name)
        }  # fmt: skip

    def _key(self, key: Any) -> str:
        return "/".join(self.text(str(part)) for part in key.values()) if isinstance(key, dict) else str(key)

    def _is_ours(self, code: int, table: str, item: Any) -> bool:
        if table not in _SHARED_TABLES.get(code, ()):
            return True
        name = _canonical(item)
        # What system groups have read is no matter of ours.
        return self._suffix in name or (
            code not in (43, 317, 328) and _SYSTEM_NAME.fullmatch(name.strip('"')) is not None
        )

    def text(self, text: str) -> str:
        """Return a text with times, addresses and ids named."""
        text = _DATE.sub("<time>", _TIME.sub(lambda match: str(self._number(int(match[0]))), text))
        text = _RECEIPT.sub(r"\1 <revive queue> \2", text)
        text = _ADDRESS.sub(lambda match: self._ports.get(match[1], "<address>"), text)
        text = _OFFSET_ID.sub(self._offset_id, text)
        return _UNIQUE_ID.sub("<unique id>", text)

    def _offset_id(self, match: re.Match[str]) -> str:
        port, offset = str(int(match[1], 16)), int(match[2], 16)
        if port not in self._ports:
            return match[0]  # of the script's own making
        return f"<id {self._ports[port]} {self._log_offset(offset)}>"

    def _log_offset(self, offset: int) -> Any:
        if offset < 0:
            return "<none>"
        return self._log_offsets.setdefault(offset, f"<log {len(self._log_offsets) + 1}>")

    def _number(self, value: Any, key: str = "") -> Any:
        if isinstance(value, float) and _RATES.search(key):
            return "<rate>"
        if isinstance(value, int) and -_PAST_MS < value - self._started_ms < _FUTURE_MS:
            return f"<time {value - self._started_ms:+d} ms>"
        return value


def is_same_text(one: str, other: str) -> bool:
    """Tell whether two normalised texts are the same, and the times in them those of one moment."""
    pairs = zip(_MOMENT.findall(one), _MOMENT.findall(other), strict=False)
    return _without_times(one) == _without_times(other) and all(abs(int(a) - int(b)) < _APART_MS for a, b in pairs)


def _without_times(text: str) -> str:
    return _MOMENT.sub("<time>", text)


def _canonical(value: Any) -> str:
    return _without_times(json.dumps(value, sort_keys=True, default=str))
