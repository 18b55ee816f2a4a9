"""Parse and format host:port addresses."""

from __future__ import annotations

import re

from rmqctl.errors import UsageError

_PORT = re.compile(r"[0-9]{1,5}")
_HOST = re.compile(r"[A-Za-z0-9._-]+")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
NAME_SERVER_PORT = 9876


def parse_address(text: str) -> tuple[str, int]:
    """Split host:port; an IPv6 host may be in brackets, or bare as Java clients write it. Raises UsageError."""
    host, separator, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or _PORT.fullmatch(port) is None or not 0 < int(port) < 65536:
        # A URL with a missing slash may contain a password.
        shown = "(with an @)" if "@" in text else repr(text)
        raise UsageError(f"Invalid address {shown}.", hint="Write host:port, for example 10.0.0.5:9876.")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return host:port, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def canonical_address(text: str) -> str:
    """Return host:port in the one spelling that files are named by: lower case, and one name for the loopback.

    Raises UsageError.
    """
    host, port = parse_address(text)
    host = host.lower()
    return format_address("localhost" if host in _LOOPBACK else host, port)


def parse_name_servers(text: str, *, default_port: int | None = NAME_SERVER_PORT) -> tuple[str, ...]:
    """Split a list of name servers at semicolons or commas, as RocketMQ's tools do; a bare host gets `default_port`.

    Raises UsageError, without a default port also for a bare host.
    """
    given = (part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    addresses = tuple(f"{part}:{default_port}" if default_port and _HOST.fullmatch(part) else part for part in given)
    if not addresses:
        raise UsageError("No name server is given.", hint="Write host:port[;host:port], for example 10.0.0.5:9876.")
    for address in addresses:
        parse_address(address)
    return addresses
