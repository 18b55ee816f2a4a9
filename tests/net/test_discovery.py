"""Name servers from a URL, served over loopback."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trustme

from rmqctl.errors import DeadlineError, RemoteProtocolError, RmqctlError, UnreachableError, UsageError
from rmqctl.net.discovery import discover
from rmqctl.net.tls import TlsSettings, make_context
from tests.scripted_peer import run


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody's proxy stand between the test and loopback."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def _answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


_Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


async def _serving(
    replies: dict[str, _Reply], scenario: Callable[[int], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> list[bytes]:
    """Serve replies by path while the scenario runs with the port; return the requests."""
    asked: list[bytes] = []
    sessions: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            asked.append(request)
            reply = replies[request.split()[1].decode().partition("?")[0]]
            if isinstance(reply, bytes):
                writer.write(reply)
                await writer.drain()
            else:
                await reply(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has seen enough
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sessions.append(asyncio.ensure_future(serve(reader, writer)))

    if tls is not None:  # asyncio logs the handshakes that the client breaks off
        asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    async with server:
        await scenario(server.sockets[0].getsockname()[1])
        for session in sessions:
            session.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)
    return asked


def _found(reply: bytes) -> tuple[str, ...]:
    got: tuple[str, ...] = ()

    async def scenario(port: int) -> None:
        nonlocal got
        got = await discover(f"http://127.0.0.1:{port}/nsaddr", 60.0)

    run(_serving({"/nsaddr": reply}, scenario))
    return got


def _error(replies: dict[str, _Reply], *, timeout_s: float = 60.0) -> tuple[RmqctlError, str]:
    """Return the error, and the URL as it may be shown."""
    error: RmqctlError | None = None
    shown = ""

    async def scenario(port: int) -> None:
        nonlocal error, shown
        shown = f"http://127.0.0.1:{port}/nsaddr"
        with pytest.raises(RmqctlError) as caught:
            await discover(f"http://user:pass-word@127.0.0.1:{port}/nsaddr?key=to-ken#part", timeout_s)
        error = caught.value

    run(_serving(replies, scenario))
    assert error is not None
    for text in (str(error), error.sentence, error.hint or "", repr(error)):
        assert "pass-word" not in text
        assert "to-ken" not in text
    return error, shown


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"10.0.0.1:9876", ("10.0.0.1:9876",)),
        (b"10.0.0.1:9876;10.0.0.2:9876\n", ("10.0.0.1:9876", "10.0.0.2:9876")),
        (b" a.example.org:1, b.example.org:2 \r\n", ("a.example.org:1", "b.example.org:2")),
    ],
    ids=["one", "two and a line end", "commas and blanks"],
)
def test_an_answer_is_a_list_of_name_servers(body: bytes, found: tuple[str, ...]) -> None:
    assert _found(_answer(body)) == found


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", "nothing"),
        (b" \r\n", "nothing"),
        (b"<html>\n<body>Sign in</body></html>", "'<html> <body>Sign in</body></html>'"),
        (b"x" * 200, f"'{'x' * 60}...'"),
        (b"\xff\xfe\x00\x01", repr("\ufffd\ufffd\x00\x01")),
        (b"10.0.0.1", "'10.0.0.1'"),
    ],
    ids=["empty", "blank", "HTML", "long", "binary", "without a port"],
)
def test_an_answer_that_is_no_list_is_shown_in_short(body: bytes, shown: str) -> None:
    error, url = _error({"/nsaddr": _answer(body)})
    assert isinstance(error, RemoteProtocolError)
    assert error.sentence == f"{url} answered {shown} instead of name servers."
    assert error.hint == "Give the URL of a service that returns host:port[;host:port] as plain text."


def test_a_huge_answer_is_not_read_to_its_end() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    error, url = _error({"/nsaddr": endless})
    assert error.sentence == f"{url} answered more than 64 KiB instead of name servers."


def test_a_packed_answer_is_not_unpacked() -> None:
    import gzip

    packed = gzip.compress(b"10.0.0.1:9876;" * 10_000_000, 1)[:60_000]
    error, _ = _error({"/nsaddr": _answer(packed, "200 OK", "Content-Encoding: gzip")})
    assert isinstance(error, RemoteProtocolError)


def test_a_server_that_never_ends_its_answer_meets_the_deadline() -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def dripping(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"1")
            await writer.drain()
            await asyncio.sleep(0.01)

    for reply in (silent, dripping):
        error, url = _error({"/nsaddr": reply}, timeout_s=0.2)
        assert isinstance(error, DeadlineError)
        assert error.sentence == f"{url}: no answer within 0.2 s."


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error", "204 No Content", "401 Unauthorized"])
def test_any_other_status_is_told(status: str) -> None:
    error, url = _error({"/nsaddr": _answer(b"", status)})
    assert isinstance(error, UnreachableError)
    assert error.sentence == f"{url}: it answered {status} instead of name servers."


def test_what_is_no_http_is_told() -> None:
    error, url = _error({"/nsaddr": b"\x00\x00\x00\x10nonsense\r\n\r\n"})
    assert error.sentence == f"{url}: it does not speak HTTP."


def test_a_redirect_is_followed() -> None:
    moved = _answer(b"", "302 Found", "Location: /elsewhere")
    got: tuple[str, ...] = ()

    async def scenario(port: int) -> None:
        nonlocal got
        got = await discover(f"http://127.0.0.1:{port}/nsaddr", 60.0)

    asked = run(_serving({"/nsaddr": moved, "/elsewhere": _answer(b"a:1")}, scenario))
    assert got == ("a:1",)
    assert len(asked) == 2


def test_a_resolver_that_hangs_does_not_outlive_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    comes_back = threading.Event()
    waited_for: list[bool] = []

    def hanging(host: str, port: int, *args: object, flags: int = 0, **options: object) -> list[object]:
        if not flags:
            waited_for.append(comes_back.wait(120))
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    with pytest.raises(DeadlineError, match=r"slow\.example/x: no answer within 0\.1 s"):
        asyncio.run(discover("http://slow.example/x", 0.1))
    assert waited_for == []  # it still hangs
    comes_back.set()


def test_an_encrypted_look_up_never_goes_on_in_plain_text(tmp_path: Path) -> None:
    ours = trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.issue_cert("127.0.0.1").configure_cert(server)
    replies: dict[str, _Reply] = {}

    async def plain(port: int) -> None:
        replies["/nsaddr"] = _answer(b"", "302 Found", f"Location: http://127.0.0.1:{port}/plain")

        async def encrypted(tls_port: int) -> None:
            with pytest.raises(UnreachableError, match="it redirects to an unencrypted URL"):
                await discover(
                    f"https://127.0.0.1:{tls_port}/nsaddr", 60.0, make_context(TlsSettings(str(tmp_path / "ca.pem")))
                )

        await _serving(replies, encrypted, server)

    assert run(_serving({"/plain": _answer(b"evil:1")}, plain)) == []


@pytest.mark.parametrize("proxy", ["foo://user:s3cret@localhost:1", "http://h:port"])
def test_a_proxy_that_can_not_be_used_is_one_sentence(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(UsageError, match="Invalid HTTP proxy") as caught:
        run(discover("http://127.0.0.1:1/x", 60.0))
    assert "s3cret" not in f"{caught.value.sentence}{caught.value.hint}"


def test_redirects_in_a_circle_or_to_nowhere_end() -> None:
    error, url = _error({"/nsaddr": _answer(b"", "302 Found", "Location: /nsaddr")})
    assert error.sentence == f"{url}: it redirects more than three times."
    error, url = _error({"/nsaddr": _answer(b"", "302 Found", "Location: ftp://a/b")})
    assert error.sentence == f"{url}: it redirects to a URL that is not http or https."


async def test_nobody_at_the_address_is_unreachable() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(UnreachableError) as caught:
        await discover(f"http://127.0.0.1:{port}/", 60.0)
    assert caught.value.reason == "connection refused"
    with pytest.raises(UnreachableError) as caught:
        await discover("http://no-such-host.invalid/", 60.0)
    assert caught.value.reason == "the host name does not resolve"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://user:pass-word@a/b",
            "file:///etc/passwd",
            "http://",
            "http:///path",
            "http://a:99999/",
            "http://a:b/",
        ),
        *("http://user:pass-word@[::1/", "http://user:pass-word@a\x00/", "http://[zz]/", "://a"),
    ],
)
def test_what_is_no_url_for_name_servers_is_a_mistake(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(discover(url, 5.0))
    assert "pass-word" not in caught.value.sentence


def test_https_trusts_the_named_authority_and_nobody_else(tmp_path: Path) -> None:
    ours, stranger = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "ca.pem")
    stranger.cert_pem.write_to_path(tmp_path / "stranger.pem")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.issue_cert("127.0.0.1").configure_cert(server)

    async def scenario(port: int) -> None:
        url = f"https://127.0.0.1:{port}/nsaddr"
        assert await discover(url, 5.0, make_context(TlsSettings(str(tmp_path / "ca.pem")))) == ("a:1",)
        for context in (None, make_context(TlsSettings(str(tmp_path / "stranger.pem")))):
            with pytest.raises(UnreachableError) as caught:
                await discover(url, 5.0, context)
            assert caught.value.reason.startswith("its certificate is not trusted (")
        # A plain request to it.
        with pytest.raises(UnreachableError):
            await discover(f"http://127.0.0.1:{port}/nsaddr", 60.0)

    run(_serving({"/nsaddr": _answer(b"a:1")}, scenario, server))
