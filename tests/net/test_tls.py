"""TLS over loopback, with certificates made for these tests."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from rmqctl.errors import UnreachableError, UsageError
from rmqctl.net.clock import SystemClock
from rmqctl.net.stream import SocketStream, connect_tcp
from rmqctl.net.tls import TlsSettings, explain_tls_error, make_context
from tests.scripted_peer import run


class Files:
    """A CA, a server's certificate for 127.0.0.1, a client's, and the same of a CA that nobody trusts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ours, self.strangers = trustme.CA(), trustme.CA()
        self.ca = self._write("ca.pem", self.ours.cert_pem.bytes())
        self.stranger_ca = self._write("stranger-ca.pem", self.strangers.cert_pem.bytes())
        self.client, self.client_key = self._issue(self.ours, "client")
        self.stranger, self.stranger_key = self._issue(self.strangers, "stranger")
        self.encrypted_key = self._write("encrypted.pem", _encrypted(Path(self.client_key).read_bytes()))
        both = Path(self.client_key).read_bytes() + Path(self.client).read_bytes()
        self.both = self._write("both.pem", both)
        self.nonsense = self._write("nonsense.pem", b"-----BEGIN CERTIFICATE-----\nnonsense\n")
        self.empty = self._write("empty.pem", b"")
        self.missing = str(folder / "missing.pem")
        self.directory = str(folder)

    def _issue(self, ca: trustme.CA, name: str) -> tuple[str, str]:
        issued = ca.issue_cert(f"{name}@example.org")
        chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
        return self._write(f"{name}.pem", chain), self._write(f"{name}-key.pem", issued.private_key_pem.bytes())

    def _write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def server(self, *hosts: str, wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ours.issue_cert(*hosts or ("127.0.0.1",)).configure_cert(context)
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ours.configure_trust(context)
        return context


def _encrypted(key: bytes) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


_Scenario = Callable[[str], Awaitable[None]]


async def _with_server(context: ssl.SSLContext | None, scenario: _Scenario) -> None:
    """Serve an echo on loopback while the scenario runs with its address."""
    sessions: list[asyncio.Task[None]] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
            writer.close()
            await writer.wait_closed()
        except OSError:
            pass  # a client that the server does not trust

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sessions.append(asyncio.ensure_future(echo(reader, writer)))

    # What the server makes of a handshake that fails is asyncio's to log; the client's side is the one under test.
    asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    async with server:
        await scenario(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await asyncio.gather(*sessions)


async def _talk(address: str, settings: TlsSettings | None) -> bytes:
    context = None if settings is None else make_context(settings)
    stream = await connect_tcp(address, SystemClock(), 60, tls=context)
    try:
        stream.write(b"hello")
        await stream.drain()
        return await stream.receive()
    finally:
        await stream.aclose()


def _echoed(server: ssl.SSLContext | None, settings: TlsSettings | None) -> bytes:
    got = b""

    async def scenario(address: str) -> None:
        nonlocal got
        got = await _talk(address, settings)

    run(_with_server(server, scenario))
    return got


def _refused(server: ssl.SSLContext | None, settings: TlsSettings) -> UnreachableError:
    async def scenario(address: str) -> None:
        nonlocal error
        with pytest.raises(UnreachableError) as caught:
            await _talk(address, settings)
        error = caught.value

    error = UnreachableError("", "")
    run(_with_server(server, scenario))
    assert error.address.startswith("127.0.0.1:")
    return error


# Whom we trust


def test_a_server_of_the_named_authority_is_trusted(files: Files) -> None:
    assert _echoed(files.server(), TlsSettings(files.ca)) == b"hello"


@pytest.mark.parametrize("verify", ["full", "ca"])
def test_a_server_of_another_authority_is_not(files: Files, verify: str) -> None:
    for ca_file in (files.stranger_ca, None):
        error = _refused(files.server(), TlsSettings(ca_file, verify=verify))
        assert error.reason.startswith("its certificate is not trusted (")
        assert error.hint == "Name the CA with --tls-ca, or skip verification with --tls-verify none."


def test_a_named_authority_stands_in_place_of_those_of_the_system(files: Files) -> None:
    context = make_context(TlsSettings(files.ca))
    assert context.cert_store_stats()["x509"] == 1
    assert make_context(TlsSettings()).verify_mode is ssl.CERT_REQUIRED


def test_a_certificate_of_another_host_is_refused_unless_told_otherwise(files: Files) -> None:
    server = files.server("broker.example.org")
    error = _refused(server, TlsSettings(files.ca))
    assert "127.0.0.1" in error.reason
    assert error.hint is not None
    assert error.hint.startswith("Skip the host name check with --tls-verify ca")
    assert _echoed(server, TlsSettings(files.ca, verify="ca")) == b"hello"
    assert _echoed(server, TlsSettings(files.ca, verify="none")) == b"hello"


def test_without_verification_anybody_is_trusted(files: Files) -> None:
    assert _echoed(files.server("broker.example.org"), TlsSettings(files.stranger_ca, verify="none")) == b"hello"


@pytest.mark.parametrize("verify", ["full", "ca", "none"])
def test_a_connection_tells_its_protocol_and_when_a_verified_certificate_ends(files: Files, verify: str) -> None:
    async def scenario(address: str) -> None:
        stream = await connect_tcp(address, SystemClock(), 60, tls=make_context(TlsSettings(files.ca, verify=verify)))
        assert isinstance(stream, SocketStream)
        facts = stream.tls_facts()
        await stream.aclose()
        assert facts is not None
        assert (facts.protocol, bool(facts.cipher)) == ("TLSv1.3", True)
        # What was not verified is not read either.
        assert (facts.expires_at_ms is None) is (verify == "none")
        assert facts.expires_at_ms is None or facts.expires_at_ms > SystemClock().now_ms()

    run(_with_server(files.server(), scenario))


def test_a_plain_connection_has_no_such_facts() -> None:
    async def scenario(address: str) -> None:
        stream = await connect_tcp(address, SystemClock(), 60)
        assert isinstance(stream, SocketStream)
        assert stream.tls_facts() is None
        await stream.aclose()

    run(_with_server(None, scenario))


# Who we are


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_wants_our_certificate_gets_it(files: Files, version: ssl.TLSVersion) -> None:
    server = files.server(wants_client=True)
    server.maximum_version = version
    assert _echoed(server, TlsSettings(files.ca, files.client, files.client_key)) == b"hello"
    assert _echoed(server, TlsSettings(files.ca, files.both)) == b"hello"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_refuses_our_certificate_is_told_so(files: Files, version: ssl.TLSVersion) -> None:
    """With TLS 1.3 the refusal comes after the handshake, in place of the first answer."""
    server = files.server(wants_client=True)
    server.maximum_version = version
    for settings in (TlsSettings(files.ca), TlsSettings(files.ca, files.stranger, files.stranger_key)):
        error = _refused_with_an_alert(server, settings)
        if version is ssl.TLSVersion.TLSv1_2 and settings.certificate_file is None:
            # OpenSSL's alert for it has other causes as well; Java's is "bad certificate".
            assert error.reason == "the TLS handshake failed (sslv3 alert handshake failure)"
        else:
            assert error.reason.startswith("the server rejected the client certificate (")
        assert error.hint is not None
        assert "--tls-cert" in error.hint


def _refused_with_an_alert(server: ssl.SSLContext, settings: TlsSettings) -> UnreachableError:
    """Talk to a server of blocking sockets: asyncio's drops the connection before its alert is sent."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            bare = connection.dup()
            with bare, server.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as tls:
                try:
                    tls.do_handshake()
                    tls.recv(1)
                except ssl.SSLError:
                    bare.shutdown(socket.SHUT_WR)
                    while bare.recv(1 << 16):
                        pass  # a close with unread bytes would reset the connection, and the alert with it

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(UnreachableError) as caught:
                run(_talk(f"127.0.0.1:{listening.getsockname()[1]}", settings))
        finally:
            thread.join(60)
    return caught.value


@pytest.mark.parametrize(
    "reason", ["SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA"]
)
def test_javas_refusals_are_told_so(reason: str) -> None:
    error = ssl.SSLError(1, f"[SSL: {reason}] (_ssl.c:1006)")
    error.reason = reason
    assert explain_tls_error(error)[0].startswith("the server rejected the client certificate (")


# Plain and TLS mixed up


async def test_a_server_that_ends_the_handshake_may_be_plain(files: Files) -> None:
    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    async with server:
        with pytest.raises(UnreachableError) as caught:
            await _talk(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", TlsSettings(files.ca))
    assert "TLS" in caught.value.reason or "reset" in caught.value.reason
    assert "error" not in caught.value.reason


def test_a_plain_server_does_not_speak_tls(files: Files) -> None:
    error = _refused(None, TlsSettings(files.ca))
    assert error.reason == "the server does not use TLS"
    assert error.hint == "Omit --tls to use a plain connection."


def test_a_tls_server_asked_in_plain_does_not_echo(files: Files) -> None:
    async def scenario(address: str) -> None:
        # Nothing says that TLS was wanted: what comes is an end, or an alert that is no frame.
        try:
            got = await _talk(address, None)
        except UnreachableError:
            got = b""
        assert got == b"" or got[:2] == b"\x15\x03"

    run(_with_server(files.server(), scenario))


# Files that can't be used


def _mistake(settings: TlsSettings) -> UsageError:
    with pytest.raises(UsageError) as caught:
        make_context(settings)
    return caught.value


def test_an_authority_that_can_not_be_read_is_a_mistake(files: Files) -> None:
    assert _mistake(TlsSettings(files.missing)).sentence == (
        f"Cannot read the CA certificate {files.missing}: no such file or directory."
    )
    assert _mistake(TlsSettings(files.directory)).sentence.endswith(": is a directory.")
    assert _mistake(TlsSettings("a\0b")).sentence.endswith("invalid file name.")
    for path in (files.nonsense, files.empty, files.client_key):
        assert (
            _mistake(TlsSettings(path)).sentence == f"Cannot read the CA certificate {path}: it is not in PEM format."
        )


def test_a_certificate_of_ours_that_can_not_be_used_is_a_mistake(files: Files) -> None:
    assert _mistake(TlsSettings(None, files.missing)).sentence.startswith(
        f"Cannot read the client certificate {files.missing}"
    )
    assert _mistake(TlsSettings(None, files.client, files.missing)).sentence == (
        f"Cannot read the client key {files.missing}: no such file or directory."
    )
    assert _mistake(TlsSettings(None, files.client, files.directory)).sentence.endswith("is a directory.")
    for certificate, key in (
        (files.nonsense, files.client_key),
        (files.client, files.nonsense),
        (files.client, None),
        (files.empty, None),
    ):
        error = _mistake(TlsSettings(None, certificate, key))
        assert error.sentence.startswith(f"Cannot use the client certificate {certificate}")


def test_a_key_that_does_not_belong_to_the_certificate_is_named(files: Files) -> None:
    error = _mistake(TlsSettings(None, files.client, files.stranger_key))
    assert error.sentence == f"The client key does not belong to the certificate {files.client}."


def test_an_encrypted_key_is_not_asked_for_its_password(files: Files) -> None:
    error = _mistake(TlsSettings(None, files.client, files.encrypted_key))
    assert error.sentence == f"The client key {files.encrypted_key} is encrypted."


def test_a_key_without_a_certificate_is_a_mistake(files: Files) -> None:
    error = _mistake(TlsSettings(None, None, files.client_key))
    assert error.sentence == "A client key requires its certificate."
    assert error.hint == "Add --tls-cert."
