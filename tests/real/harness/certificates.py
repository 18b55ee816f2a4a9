"""Certificates for servers that speak TLS: a small CA, what it issued, and a CA that nobody trusts."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


class Certificates:
    """PEM files in one folder. The server's certificate names 127.0.0.1 and localhost, no other address."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        ours, stranger = trustme.CA(), trustme.CA()
        self.ca = folder / "ca.pem"
        ours.cert_pem.write_to_path(self.ca)
        self.stranger_ca = folder / "stranger-ca.pem"
        stranger.cert_pem.write_to_path(self.stranger_ca)
        self.server, self.server_key = _issue(ours, folder, "server", "127.0.0.1", "localhost")
        self.client, self.client_key = _issue(ours, folder, "client", "operator@example.org")
        self.stranger, self.stranger_key = _issue(stranger, folder, "stranger", "stranger@example.org")

    def jvm(self, mode: str = "enforcing", *, client_certificates: str = "none") -> tuple[str, ...]:
        """Return the options of every JVM of such a cluster: as a server, and as a client with its own certificate.

        `mode` is tls.server.mode, `client_certificates` tls.server.need.client.auth (none, optional, require).
        """
        settings = {
            "tls.enable": "true",
            "tls.test.mode.enable": "false",
            "tls.server.mode": mode,
            "tls.server.certPath": self.server,
            "tls.server.keyPath": self.server_key,
            "tls.server.need.client.auth": client_certificates,
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": self.ca,
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": self.ca,
            "tls.client.certPath": self.client,
            "tls.client.keyPath": self.client_key,
            # What a machine has in its own file must not count.
            "tls.config.file": self.ca.parent / "no-such-file",
        }
        return tuple(f"-D{name}={value}" for name, value in settings.items())


def _issue(ca: trustme.CA, folder: Path, name: str, *identities: str) -> tuple[Path, Path]:
    issued = ca.issue_cert(*identities)
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    # Netty reads PKCS#8 only, trustme writes the older form.
    private = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    form, no_password = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, no_password))
    return certificate, key
