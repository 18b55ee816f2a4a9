"""The shared client core: connections, requests matched to answers, name servers, routes.

A Client can be shared by several consumers and producers. It needs no connection until it is used:

    async with Client("10.0.0.5:9876;10.0.0.6:9876", credentials=Credentials("key", "secret")) as client:
        async with PushConsumer(client, group="billing", topics=["orders"], listener=consume):
            ...
"""

from __future__ import annotations

from rmqctl.net.tls import TlsSettings

from .auth import Credentials
from .core import Client

__all__ = ["Client", "Credentials", "TlsSettings"]
