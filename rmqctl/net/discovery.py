"""Name servers from a URL: a GET answers host:port;host:port, as for RocketMQ's clients (DefaultTopAddressing)."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rmqctl.errors import DeadlineError, RemoteProtocolError, UnreachableError, UsageError

from .address import parse_name_servers
from .stream import explain_os_error, resolve
from .tls import explain_tls_error

if TYPE_CHECKING:
    import httpx

_MAX_BYTES = 64 * 1024
_SHOWN_LENGTH = 60


async def discover(url: str, timeout_s: float, tls: ssl.SSLContext | None = None) -> tuple[str, ...]:
    """Return the name servers that a URL names.

    Raises UsageError for what is no URL and for a proxy of the environment that can't be used, UnreachableError when
    nobody answers, RemoteProtocolError for an answer that is no list of name servers.
    """
    shown = shown_url(url)
    import httpx

    async def stay_encrypted(request: httpx.Request) -> None:
        if shown.startswith("https:") and request.url.scheme != "https":
            raise UnreachableError(shown, "it redirects to where nothing is encrypted")

    try:
        client = httpx.AsyncClient(
            timeout=timeout_s,
            follow_redirects=True,
            max_redirects=3,
            verify=True if tls is None else tls,
            headers={"Accept-Encoding": "identity"},
            event_hooks={"request": [stay_encrypted]},
        )
    except (ImportError, ValueError, httpx.InvalidURL):
        raise UsageError(
            "The proxy for HTTP that the environment names can't be used.",
            hint="HTTP_PROXY, HTTPS_PROXY and ALL_PROXY take http:// and https://; NO_PROXY names hosts without one.",
        ) from None
    try:
        # httpx bounds each read; a server that sends a byte now and then would never end.
        async with asyncio.timeout(timeout_s), client:
            httpx.URL(url)  # what httpx does not take is no URL, whatever its host
            await _resolve(url, shown)
            return await _fetch(client, url, shown)
    except (httpx.TimeoutException, TimeoutError):
        raise DeadlineError(shown, timeout_s) from None
    except httpx.InvalidURL:
        raise UsageError(f"{shown!r} is no URL.") from None
    except httpx.TooManyRedirects:
        raise UnreachableError(shown, "it redirects more than three times") from None
    except httpx.HTTPError as error:
        raise UnreachableError(shown, _reason(error)) from None


async def _resolve(url: str, shown: str) -> None:
    """Make sure that the host's name resolves: httpx looks names up in a thread for which the program waits at its end.

    Behind a proxy, which looks the name up itself, there is nothing to ask.
    """
    from urllib.request import getproxies

    parts = urlsplit(url)
    if {parts.scheme, "all"} & getproxies().keys():
        return
    try:
        await resolve(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    except (OSError, ValueError):
        raise UnreachableError(shown, "the host name does not resolve") from None


async def _fetch(client: httpx.AsyncClient, url: str, shown: str) -> tuple[str, ...]:
    async with client.stream("GET", url) as response:
        if response.status_code != 200:
            status = f"{response.status_code} {response.reason_phrase}".strip()
            raise UnreachableError(shown, f"it answered {status} in place of name servers")
        body = b""
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > _MAX_BYTES:
                raise RemoteProtocolError(f"{shown} answered more than {_MAX_BYTES // 1024} KiB, no name servers.")
    text = body.decode(errors="replace").strip()
    try:
        return parse_name_servers(text, default_port=None)
    except UsageError:
        raise RemoteProtocolError(
            f"{shown} answered {_excerpt(text)} in place of name servers.",
            hint="It must answer host:port[;host:port] as plain text.",
        ) from None


def shown_url(url: str) -> str:
    """Return the URL without user, password and query, which may hold a token. Raises UsageError for what is none."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        raise UsageError("The name servers' URL can't be read.", hint="Write http://host[:port]/path.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(
            f"{parts.scheme}://... is no URL for name servers.", hint="Write http://host[:port]/path, or https."
        )
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def _excerpt(text: str) -> str:
    if not text:
        return "nothing"
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_LENGTH else f"{line[:_SHOWN_LENGTH]}...")


def _reason(error: Exception) -> str:
    """Return a few plain words; httpx's own can hold the whole URL."""
    import httpx

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message.rstrip('.')})"
        if isinstance(cause, ssl.SSLError):
            return explain_tls_error(cause)[0]
        if isinstance(cause, OSError) and cause.strerror:
            return explain_os_error(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.UnsupportedProtocol):
        return "it redirects to what is no URL for name servers"
    if isinstance(error, httpx.RemoteProtocolError):
        return "it does not speak HTTP"
    return "the connection failed"
