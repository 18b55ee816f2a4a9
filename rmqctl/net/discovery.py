"""Look up name servers by URL: a GET returns host:port;host:port, as for RocketMQ clients (DefaultTopAddressing)."""

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
    """Return the name servers that a URL lists.

    Raises UsageError for an invalid URL and for an unusable proxy in the environment, UnreachableError when the server
    does not answer, RemoteProtocolError for an answer that is not a list of name servers.
    """
    shown = shown_url(url)
    import httpx

    async def stay_encrypted(request: httpx.Request) -> None:
        if shown.startswith("https:") and request.url.scheme != "https":
            raise UnreachableError(shown, "it redirects to an unencrypted URL")

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
            "Invalid HTTP proxy in the environment.",
            hint="Use http:// or https:// in HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or list the host in NO_PROXY.",
        ) from None
    try:
        # httpx only bounds each read; a server that sends a byte now and then could take for ever.
        async with asyncio.timeout(timeout_s), client:
            httpx.URL(url)  # raises InvalidURL before the host is resolved
            await _resolve(url, shown)
            return await _fetch(client, url, shown)
    except (httpx.TimeoutException, TimeoutError):
        raise DeadlineError(shown, timeout_s) from None
    except httpx.InvalidURL:
        raise UsageError(f"Invalid URL {shown!r}.") from None
    except httpx.TooManyRedirects:
        raise UnreachableError(shown, "it redirects more than three times") from None
    except httpx.HTTPError as error:
        raise UnreachableError(shown, _reason(error)) from None


async def _resolve(url: str, shown: str) -> None:
    """Check that the host name resolves: httpx resolves names in a thread that would delay the end of the program.

    Does nothing behind a proxy, which resolves the name itself.
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
            raise UnreachableError(shown, f"it answered {status} instead of name servers")
        body = b""
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > _MAX_BYTES:
                raise RemoteProtocolError(
                    f"{shown} answered more than {_MAX_BYTES // 1024} KiB instead of name servers."
                )
    text = body.decode(errors="replace").strip()
    try:
        return parse_name_servers(text, default_port=None)
    except UsageError:
        raise RemoteProtocolError(
            f"{shown} answered {_excerpt(text)} instead of name servers.",
            hint="Give the URL of a service that returns host:port[;host:port] as plain text.",
        ) from None


def shown_url(url: str) -> str:
    """Return the URL without user, password and query, which may contain a token. Raises UsageError if invalid."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        raise UsageError("Invalid URL for name servers.", hint="Write http://host[:port]/path.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(
            f"Invalid URL {parts.scheme}://... for name servers.",
            hint="Write http://host[:port]/path or https://host[:port]/path.",
        )
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def _excerpt(text: str) -> str:
    if not text:
        return "nothing"
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_LENGTH else f"{line[:_SHOWN_LENGTH]}...")


def _reason(error: Exception) -> str:
    """Return the reason in a few plain words; httpx's own message can contain the whole URL."""
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
        return "it redirects to a URL that is not http or https"
    if isinstance(error, httpx.RemoteProtocolError):
        return "it does not speak HTTP"
    return "the connection failed"
