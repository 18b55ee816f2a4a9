"""Which clients are cut off from which brokers, and how the client of a connection is recognized."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.java_json import loads
from rmqctl.protocol.record import Host
from rmqctl.sandbox.channel import Channel
from rmqctl.sandbox.request import Request

# Where requests name their sender: in a field, or in the body.
_ID_FIELDS = {RequestCode.UNREGISTER_CLIENT: "clientID"}
_ID_BODIES = {
    RequestCode.HEART_BEAT: "clientID",
    RequestCode.CHECK_CLIENT_CONFIG: "clientId",
    RequestCode.LOCK_BATCH_MQ: "clientId",
    RequestCode.UNLOCK_BATCH_MQ: "clientId",
    RequestCode.QUERY_ASSIGNMENT: "clientId",
}
# Where the requests of members name their group.
_GROUP_FIELDS = {
    RequestCode.PULL_MESSAGE: "consumerGroup",
    RequestCode.LITE_PULL_MESSAGE: "consumerGroup",
    RequestCode.QUERY_CONSUMER_OFFSET: "consumerGroup",
    RequestCode.UPDATE_CONSUMER_OFFSET: "consumerGroup",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "consumerGroup",
    RequestCode.CONSUMER_SEND_MSG_BACK: "group",
    RequestCode.POP_MESSAGE: "consumerGroup",
    RequestCode.ACK_MESSAGE: "consumerGroup",
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: "consumerGroup",
    RequestCode.NOTIFICATION: "consumerGroup",
    RequestCode.SEND_MESSAGE: "producerGroup",
    RequestCode.SEND_MESSAGE_V2: "a",
    RequestCode.SEND_BATCH_MESSAGE: "a",
    RequestCode.END_TRANSACTION: "producerGroup",
}


class Trait(Struct, frozen=True):
    """A group of a client, and the host, language and version of the client's connections."""

    group: str
    host: bytes
    language: str
    version: int


def trait_of(group: str, host: Host, language: str, version: int) -> Trait:
    """Return a client's trait, without the port, which differs per connection."""
    return Trait(group, host[0], language, version)


class Partitions:
    """Clients by id, each with the brokers that it is cut off from; None means all brokers.

    A new connection has no client until it names one. Until then, it is attributed to a client that is cut off when its
    requests are for that client's group and its host, language and version are the same.
    """

    def __init__(self) -> None:
        self.cut: dict[str, set[str] | None] = {}
        self._traits: dict[str, set[Trait]] = {}

    def add(self, client_id: str, server: str | None, traits: Iterable[Trait]) -> None:
        """Cut a client off from a broker, or from all (None); `traits` help to recognize its new connections."""
        servers = self.cut.get(client_id, set())
        self.cut[client_id] = None if server is None or servers is None else servers | {server}
        self._traits.setdefault(client_id, set()).update(traits)

    def remove(self, client_id: str) -> bool:
        """Reconnect a client; return whether it was cut off."""
        self._traits.pop(client_id, None)
        return self.cut.pop(client_id, _NOT_CUT) is not _NOT_CUT

    def is_cut(self, server: str, channel: Channel) -> bool:
        """Return whether a connection belongs to a client that is cut off from this broker."""
        client_id = channel.client_id or channel.suspected_id
        if client_id is None or client_id not in self.cut:
            return False
        servers = self.cut[client_id]
        return servers is None or server in servers

    def identify(self, request: Request) -> None:
        """Note which client a request's connection belongs to, if the request reveals it."""
        code, channel = request.command.code, request.channel
        said = self._named_client(request)
        if said is not None:
            channel.client_id, channel.suspected_id = said, None
            if code == RequestCode.HEART_BEAT and said in self.cut:
                self._traits[said].update(self._heartbeat_traits(request))
        elif channel.client_id is None and code in _GROUP_FIELDS:
            group = request.fields.get(_GROUP_FIELDS[RequestCode(code)])
            if group is not None:
                channel.suspected_id = self._client_of(group, request) or channel.suspected_id

    def _named_client(self, request: Request) -> str | None:
        code = request.command.code
        said: object = None
        if code in _ID_FIELDS:
            said = request.fields.get(_ID_FIELDS[RequestCode(code)])
        elif code in _ID_BODIES:
            said = _body(request).get(_ID_BODIES[RequestCode(code)])
        return said if isinstance(said, str) and said else None

    def _client_of(self, group: str, request: Request) -> str | None:
        command = request.command
        looks = trait_of(group, request.channel.host, command.language, command.version)
        return next((client_id for client_id, traits in self._traits.items() if looks in traits), None)

    def _heartbeat_traits(self, request: Request) -> set[Trait]:
        """Return the traits in a heartbeat that is dropped."""
        command, body = request.command, _body(request)
        found = set()
        for key in ("consumerDataSet", "producerDataSet"):
            entries = body.get(key)
            for entry in entries if isinstance(entries, list) else ():
                group = entry.get("groupName") if isinstance(entry, dict) else None
                if isinstance(group, str):
                    found.add(trait_of(group, request.channel.host, command.language, command.version))
        return found


_NOT_CUT: set[str] = set()

TraitsOf = Callable[[str], Iterable[Trait]]


def _body(request: Request) -> dict[str, Any]:
    try:
        body = loads(request.command.body)
    except RemoteProtocolError:
        return {}
    return body if isinstance(body, dict) else {}
