"""A web server that names a cluster's name servers, as RocketMQ's clients ask for them, well-behaved or not."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .certificates import Certificates

PATH = "/rocketmq/nsaddr"

_Answer = Callable[["_Request"], None]


class NameServerPage:
    """Answers GET PATH as it was last told to, everything else with 404. `asked` are the paths asked for, in order."""

    def __init__(self, *, certificates: Certificates | None = None) -> None:
        self.asked: list[str] = []
        self._closed = threading.Event()
        self._answer: _Answer = _status(404)
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Request)
        server.daemon_threads = True
        server.page = self  # type: ignore[attr-defined]
        scheme = "http"
        if certificates is not None:
            scheme = "https"
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificates.server, certificates.server_key)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self._server = server
        self.url = f"{scheme}://127.0.0.1:{server.server_address[1]}{PATH}"
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def name(self, text: str) -> None:
        """Answer with this text: name servers joined by ";", or nonsense."""
        self._answer = _body(text.encode())

    def name_bytes(self, body: bytes) -> None:
        """Answer with these bytes, which need not be text, and may be many."""
        self._answer = _body(body)

    def fail(self, status: int) -> None:
        """Answer with this status and no page."""
        self._answer = _status(status)

    def redirect(self, to: str) -> None:
        """Send clients elsewhere (to PATH itself for a loop)."""

        def answer(request: _Request) -> None:
            request.send_response(302)
            request.send_header("Location", to)
            request.send_header("Content-Length", "0")
            request.end_headers()

        self._answer = answer

    def hang(self) -> None:
        """Take requests and never answer."""
        self._answer = lambda _: self._wait_s(None)

    def drip(self) -> None:
        """Answer a byte of a long address now and then, without an end."""

        def answer(request: _Request) -> None:
            request.send_response(200)
            request.end_headers()
            while not self._wait_s(0.1):
                request.wfile.write(b"1")

        self._answer = answer

    def close(self) -> None:
        """Stop answering, also requests that hang."""
        self._closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _wait_s(self, timeout_s: float | None) -> bool:
        return self._closed.wait(timeout_s)

    def answer(self, request: _Request) -> None:
        """Answer one request."""
        self.asked.append(request.path)
        (self._answer if request.path.partition("?")[0] == PATH else _status(404))(request)


class _Request(BaseHTTPRequestHandler):
    timeout = 10  # a client that only connects

    def do_GET(self) -> None:
        try:
            self.server.page.answer(self)  # type: ignore[attr-defined]
        except OSError:
            pass  # the client had enough

    def log_message(self, *args: object) -> None:
        pass


def _body(body: bytes) -> _Answer:
    def answer(request: _Request) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


def _status(status: int) -> _Answer:
    def answer(request: _Request) -> None:
        request.send_response(status)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return answer
