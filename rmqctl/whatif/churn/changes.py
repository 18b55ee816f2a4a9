"""The changes of a scenario: members that start and end, brokers and connections that come and go."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Departure(StrEnum):
    """How a member ends."""

    STOP = "stop"
    """Shutdown: it commits its offsets and unregisters."""
    KILL = "kill"
    """The process ends: brokers see its connections close, and nothing is committed."""
    VANISH = "vanish"
    """Nothing reaches the brokers: they keep the member until its channel expires."""


class MemberStart(Struct, frozen=True):
    """A member starts; `origin` is the id that it had before a restart."""

    at_ms: float
    client_id: str
    origin: str = ""


class MemberEnd(Struct, frozen=True):
    """A member ends."""

    at_ms: float
    client_id: str
    departure: Departure = Departure.STOP


class BrokerStop(Struct, frozen=True):
    """A broker is shut down: it keeps committed offsets, and forgets its members."""

    at_ms: float
    broker_name: str


class BrokerStart(Struct, frozen=True):
    """A broker starts again."""

    at_ms: float
    broker_name: str


class CutBegin(Struct, frozen=True):
    """Nothing passes any more between a member and some brokers; connections stay open on both sides."""

    at_ms: float
    client_id: str
    broker_names: tuple[str, ...]


class CutEnd(Struct, frozen=True):
    """The member reaches these brokers again."""

    at_ms: float
    client_id: str
    broker_names: tuple[str, ...]


Change = MemberStart | MemberEnd | BrokerStop | BrokerStart | CutBegin | CutEnd
