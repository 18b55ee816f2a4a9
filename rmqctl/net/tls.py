"""TLS on connections: what is trusted, and who we are."""

from __future__ import annotations

import ssl
from pathlib import Path

from msgspec import Struct

from rmqctl.errors import UsageError


class TlsFacts(Struct, frozen=True):
    """What a handshake agreed on. `expires_at_ms` is the server's certificate's, None when it was not verified."""

    protocol: str
    cipher: str
    expires_at_ms: int | None


class TlsSettings(Struct, frozen=True):
    """How to speak TLS; files are PEM.

    `verify`: "full" checks the server's certificate and that it is the host's, "ca" only the certificate, as
    RocketMQ's own clients do, "none" nothing at all.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: str = "full"


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context for connections to servers. Raises UsageError for files that can't be used."""
    context = _trusting(settings.ca_file)
    if settings.verify == "none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.verify == "ca":
        context.check_hostname = False
    if settings.certificate_file is not None:
        _load_own(context, settings.certificate_file, settings.key_file)
    elif settings.key_file is not None:
        raise UsageError("A client key needs its certificate.", hint="Give --tls-cert too.")
    return context


def _trusting(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of the file and no others; without one, those of the system."""
    if ca_file is None:
        return ssl.create_default_context()
    _readable("CA certificate", ca_file)
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise UsageError(f"The CA certificate {ca_file} is no certificate in PEM format.") from None


def _load_own(context: ssl.SSLContext, certificate_file: str, key_file: str | None) -> None:
    _readable("client certificate", certificate_file)
    if key_file is not None:
        _readable("client key", key_file)

    def no_password() -> str:
        # OpenSSL would ask for it on the terminal, in the middle of a script.
        raise UsageError(
            f"The client key {key_file or certificate_file} is encrypted.",
            hint="Give a key without a password, in a file that only you can read.",
        )

    try:
        context.load_cert_chain(certificate_file, key_file, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(f"The client key does not belong to the certificate {certificate_file}.") from None
        where = f" with the key {key_file}" if key_file else ""
        raise UsageError(
            f"The client certificate {certificate_file}{where} can't be used.",
            hint="Both must be in PEM format; without a key file the key stands in the certificate's.",
        ) from None


def _readable(what: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "this is no file's name"
        raise UsageError(f"The {what} {path} can't be read: {reason.lower()}.") from None


def read_facts(connection: ssl.SSLObject) -> TlsFacts:
    """Return what a connection's handshake agreed on; Python reads no certificate that it did not verify."""
    expires_at_ms = None
    certificate = connection.getpeercert() or {}
    if isinstance(not_after := certificate.get("notAfter"), str):
        expires_at_ms = int(ssl.cert_time_to_seconds(not_after)) * 1000
    cipher = connection.cipher()
    return TlsFacts(connection.version() or "unknown", cipher[0] if cipher else "unknown", expires_at_ms)


def explain_tls_error(error: ssl.SSLError) -> tuple[str, str | None]:
    """Return a few plain words for a handshake that failed, and a hint."""
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message.rstrip(".")
        if "match" in words and ("Hostname" in words or "IP address" in words):
            hint = "--tls-verify ca checks the certificate but not whose it is, as RocketMQ's own clients do."
        else:
            hint = "Name the CA with --tls-ca; --tls-verify none trusts anybody."
        return f"its certificate is not trusted ({words})", hint
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if reason in ("wrong version number", "unexpected message", "unexpected eof while reading", "record layer failure"):
        return "it does not speak TLS", "Without --tls the connection is plain."
    if "certificate required" in reason or any(
        words in reason for words in ("bad certificate", "certificate unknown", "unknown ca")
    ):
        return f"it refused our certificate ({reason})", "Give the client certificate with --tls-cert and --tls-key."
    maybe = "It may want a client certificate: --tls-cert and --tls-key." if "handshake failure" in reason else None
    return f"the TLS handshake failed ({reason})", maybe
