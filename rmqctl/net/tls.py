"""TLS contexts: trusted authorities, client certificates, and reasons for failed handshakes."""

from __future__ import annotations

import ssl
from pathlib import Path

from msgspec import Struct

from rmqctl.errors import UsageError


class TlsFacts(Struct, frozen=True):
    """What a handshake agreed on. `expires_at_ms` is the expiry of a verified server certificate, else None."""

    protocol: str
    cipher: str
    expires_at_ms: int | None


class TlsSettings(Struct, frozen=True):
    """TLS settings; files are in PEM format.

    `verify`: "full" verifies the server's certificate and the host name; "ca" only the certificate, as RocketMQ's own
    clients do; "none" nothing.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: str = "full"


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context for connections to servers. Raises UsageError for unusable files."""
    context = _trusting(settings.ca_file)
    if settings.verify == "none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.verify == "ca":
        context.check_hostname = False
    if settings.certificate_file is not None:
        _load_own(context, settings.certificate_file, settings.key_file)
    elif settings.key_file is not None:
        raise UsageError("A client key requires its certificate.", hint="Add --tls-cert.")
    return context


def _trusting(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts only the authorities in the file; without a file, those of the system."""
    if ca_file is None:
        return ssl.create_default_context()
    _readable("CA certificate", ca_file)
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise UsageError(f"Cannot read the CA certificate {ca_file}: it is not in PEM format.") from None


def _load_own(context: ssl.SSLContext, certificate_file: str, key_file: str | None) -> None:
    _readable("client certificate", certificate_file)
    if key_file is not None:
        _readable("client key", key_file)

    def no_password() -> str:
        # Otherwise OpenSSL would ask for the password on the terminal, in the middle of a script.
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
            f"Cannot use the client certificate {certificate_file}{where}.",
            hint="Use PEM files; without --tls-key, the certificate file must contain the key.",
        ) from None


def _readable(what: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "invalid file name"
        raise UsageError(f"Cannot read the {what} {path}: {reason.lower()}.") from None


def read_facts(connection: ssl.SSLObject) -> TlsFacts:
    """Return what a connection's handshake agreed on; Python does not return unverified certificates."""
    expires_at_ms = None
    certificate = connection.getpeercert() or {}
    if isinstance(not_after := certificate.get("notAfter"), str):
        expires_at_ms = int(ssl.cert_time_to_seconds(not_after)) * 1000
    cipher = connection.cipher()
    return TlsFacts(connection.version() or "unknown", cipher[0] if cipher else "unknown", expires_at_ms)


def explain_tls_error(error: ssl.SSLError) -> tuple[str, str | None]:
    """Return the reason for a failed handshake in a few plain words, and a hint."""
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message.rstrip(".")
        if "match" in words and ("Hostname" in words or "IP address" in words):
            hint = "Skip the host name check with --tls-verify ca, as RocketMQ's own clients do."
        else:
            hint = "Name the CA with --tls-ca, or skip verification with --tls-verify none."
        return f"its certificate is not trusted ({words})", hint
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if reason in ("wrong version number", "unexpected message", "unexpected eof while reading", "record layer failure"):
        return "the server does not use TLS", "Omit --tls to use a plain connection."
    if "certificate required" in reason or any(
        words in reason for words in ("bad certificate", "certificate unknown", "unknown ca")
    ):
        return (
            f"the server rejected the client certificate ({reason})",
            "Give a certificate that it accepts with --tls-cert and --tls-key.",
        )
    maybe = (
        "If the server requires a client certificate, give --tls-cert and --tls-key."
        if "handshake failure" in reason
        else None
    )
    return f"the TLS handshake failed ({reason})", maybe
