"""The address of this machine, for names that must be unique across machines."""

from __future__ import annotations

import socket

# Addresses reserved for documentation (RFC 5737, RFC 3849). No packet is sent: the system only chooses the route.
_SOMEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_LOOPBACK = "127.0.0.1"


def own_address() -> str:
    """Return the address of the outgoing interface, IPv4 if possible; loopback on a machine without a network.

    Resolves no names: that could take half a minute.
    """
    for family, address in _SOMEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                return str(probe.getsockname()[0]).partition("%")[0]
        except OSError:
            continue
    return _LOOPBACK
