"""The address of this machine, for names that others must not have as well."""

from __future__ import annotations

import socket

# Addresses that nobody has (RFC 5737, RFC 3849). No packet is sent: the system only tells by which way one would go.
_SOMEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_LOOPBACK = "127.0.0.1"


def own_address() -> str:
    """Return the address by which others are reached, an IPv4 one if there is one; loopback on a machine without any.

    Names are not looked up: that could take half a minute.
    """
    for family, address in _SOMEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                return str(probe.getsockname()[0]).partition("%")[0]
        except OSError:
            continue
    return _LOOPBACK
