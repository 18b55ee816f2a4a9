"""Ask a LineServer, without asyncio: importing it would take longer than the request."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from rmqctl.errors import DeadlineError, RemoteProtocolError, UnreachableError, UnsupportedError

_MAX_ANSWER_BYTES = 16 * 1024 * 1024


def ask_line(path: Path, line: bytes, timeout_s: float) -> bytes:
    """Send one line and return the line that answers it, without its newline.

    Raises UnreachableError, DeadlineError, UnsupportedError, and RemoteProtocolError for an answer that never ends.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise UnsupportedError("This system does not support unix sockets, which a running sandbox needs.")
    until_s = time.monotonic() + timeout_s
    answer = bytearray()
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.settimeout(timeout_s)
            sock.connect(str(path))
            sock.sendall(line + b"\n")
            while not answer.endswith(b"\n"):
                sock.settimeout(max(0.001, until_s - time.monotonic()))
                data = sock.recv(1 << 16)
                if not data:
                    raise UnreachableError(str(path), "the connection was closed")
                answer += data
                if len(answer) > _MAX_ANSWER_BYTES:
                    raise RemoteProtocolError(f"{path} sent an answer that is too long.")
        except TimeoutError:
            raise DeadlineError(str(path), timeout_s) from None
        except OSError as error:
            raise UnreachableError(str(path), (error.strerror or type(error).__name__).lower()) from None
    return bytes(answer[:-1])
