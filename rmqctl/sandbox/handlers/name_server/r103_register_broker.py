"""REGISTER_BROKER: a broker registers itself and its topics (DefaultRequestProcessor.registerBroker)."""

from __future__ import annotations

import json
import zlib
from typing import Any

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import loads
from rmqctl.sandbox.data_version import read_version
from rmqctl.sandbox.name_server import EXPIRED_S, ORDER_CONFIG, NameServer, Registration
from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.request import FailureError, RefusalError, Request, ok
from rmqctl.sandbox.topics.table import Topic

# The limit of an inflated body: some 100,000 topics.
_MAX_INFLATED_BYTES = 32 * 1024 * 1024


def handle(name_server: NameServer, request: Request) -> Command:
    """Register it; return its master to a slave, and the configuration of ordered topics to all."""
    registration = _read_registration(name_server.profile, request)
    if not name_server.register(registration):
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "register broker failed")
    ha_address, master = name_server.master_of(registration) or (None, None)
    orders = name_server.key_values.get(ORDER_CONFIG)
    return_orders = not name_server.profile.is_5 or name_server.settings.flag("returnOrderTopicConfigToBroker")
    body = dumps({"table": orders}) if orders is not None and return_orders else b""
    return ok(body, haServerAddr=ha_address, masterAddr=master)


def _read_registration(profile: Profile, request: Request) -> Registration:
    """Read a REGISTER_BROKER request. Raises RefusalError."""
    body = request.command.body
    crc = request.number("bodyCrc32", 0)
    if crc and crc != zlib.crc32(body) & 0x7FFFFFFF:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    try:
        topics, version = _read_body(body, is_compressed=request.flag("compressed"))
    except (ValueError, KeyError, TypeError, AttributeError, RemoteProtocolError, zlib.error) as error:
        text = f"Failed to decode RegisterBrokerBody: {error}"
        raise FailureError(f"org.apache.rocketmq.remoting.exception.RemotingCommandException: {text}") from None
    timeout_ms = request.number("heartbeatTimeoutMillis", None) if profile.is_5 else None
    return Registration(
        request.text("clusterName"), request.text("brokerName"), request.number("brokerId"), request.text("brokerAddr"),
        topics, read_version(profile, version), request.text("haServerAddr", ""),
        EXPIRED_S if timeout_ms is None else timeout_ms / 1000, request.channel,
        profile.is_5 and "enableActingMaster" in request.fields,
    )  # fmt: skip


def _read_body(body: bytes, *, is_compressed: bool) -> tuple[dict[str, Topic], dict[str, Any]]:
    if is_compressed:
        return _read_compressed(body)
    if not body:
        return {}, {}
    wrapper = loads(body).get("topicConfigSerializeWrapper") or {}
    table = {name: Topic.from_wire(name, item) for name, item in (wrapper.get("topicConfigTable") or {}).items()}
    return table, wrapper.get("dataVersion") or {}


def _read_compressed(body: bytes) -> tuple[dict[str, Topic], dict[str, Any]]:
    """Read the version and the topics; ignore the filter servers and static topics that follow."""
    inflater = zlib.decompressobj()
    data = inflater.decompress(body, _MAX_INFLATED_BYTES)
    if not inflater.eof:
        raise ValueError("the body does not end, or is too long")
    parts = _Parts(data)
    version = json.loads(parts.text())
    topics = [_read_topic(parts.text()) for _ in range(parts.number())]
    return {topic.name: topic for topic in topics}, version


class _Parts:
    """Consecutive numbers and texts; each text follows its length."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        end = self._at + 4
        if end > len(self._data):
            raise ValueError("the body is cut off")
        value = int.from_bytes(self._data[self._at : end], "big", signed=True)
        self._at = end
        return value

    def text(self) -> str:
        length = self.number()
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise ValueError("the body is cut off")
        text = self._data[self._at : end].decode()
        self._at = end
        return text


def _read_topic(text: str) -> Topic:
    """Read TopicConfig.encode(): name, read and write queue counts, permissions, type, attributes since 5.x."""
    name, read_count, write_count, perm, filter_type, *rest = text.split(" ", 5)
    attributes = json.loads(rest[0]) if rest and rest[0].strip() else {}
    return Topic(name, int(read_count), int(write_count), int(perm), filter_type, attributes=attributes)
