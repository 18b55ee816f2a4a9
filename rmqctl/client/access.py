"""Turn connection settings into a client; the client opens its connections at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from rmqctl.model.cluster_memory import Expectation
from rmqctl.net.address import parse_address, parse_name_servers
from rmqctl.net.clock import Deadline, SystemClock
from rmqctl.net.tls import TlsSettings, make_context
from rmqctl.protocol.command import HeaderEncoding

from .auth import Credentials
from .core import Client
from .secrets import credentials_of_environment, read_credentials


class Access(Struct, frozen=True):
    """The settings as given. `tls` uses the configuration file's keys (ca, cert, key, verify); None means plain TCP.

    The credentials are `given`, else those in the file at `credentials_path`, else those in the environment.
    """

    name_servers: str
    timeout_s: float
    credentials_path: str | None = None
    tls: Mapping[str, str] | None = None
    address_map: Mapping[str, str] = field(default_factory=dict)
    header: str = "JSON"
    given: Credentials | None = None

    def credentials(self) -> Credentials | None:
        """Return the credentials, None when requests are not signed. Raises UsageError."""
        if self.given is not None:
            return self.given
        return (
            credentials_of_environment() if self.credentials_path is None else read_credentials(self.credentials_path)
        )

    async def connect(
        self, *, open_ended: bool = False, expect: Callable[[Sequence[str]], Expectation] | None = None
    ) -> Client:
        """Return a client; a look-up of name servers by URL counts against the same deadline.

        `expect` returns the expected brokers and topics of the cluster with these name servers. Raises UsageError, and
        what discover() raises.
        """
        clock = SystemClock()
        deadline = Deadline(clock, self.timeout_s, open_ended=open_ended)
        credentials = self.credentials()
        for address in self.address_map.values():
            parse_address(address)
        tls = None
        if self.tls is not None:
            given = self.tls
            tls = TlsSettings(given.get("ca"), given.get("cert"), given.get("key"), given.get("verify", "full"))
        if "://" in self.name_servers:
            from rmqctl.net.discovery import discover

            context = None if tls is None else make_context(tls)
            name_servers = await discover(self.name_servers.strip(), deadline.attempt_s(), context)
        else:
            name_servers = parse_name_servers(self.name_servers)
        return Client(
            name_servers,
            timeout_s=self.timeout_s if open_ended else deadline.remaining_s(),
            clock=clock,
            tls=tls,
            credentials=credentials,
            address_map=self.address_map,
            encoding=HeaderEncoding[self.header],
            open_ended=open_ended,
            expectation=None if expect is None else expect(name_servers),
        )
