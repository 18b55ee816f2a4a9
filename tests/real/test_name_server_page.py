"""The page that names name servers answers as it is told."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from .harness.discovery import PATH, NameServerPage


def _get(url: str) -> bytes:
    opened = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opened.open(url, timeout=0.5) as answer:
        body: bytes = answer.read()
    return body


def test_it_names_servers_or_anything(name_server_page: NameServerPage) -> None:
    name_server_page.name("127.0.0.1:9876;127.0.0.2:9876")
    assert _get(name_server_page.url) == b"127.0.0.1:9876;127.0.0.2:9876"
    name_server_page.name_bytes(b"\xff" * 1_000_000)
    assert len(_get(name_server_page.url)) == 1_000_000
    assert name_server_page.asked == [PATH, PATH]


def test_it_fails_redirects_and_loops(name_server_page: NameServerPage) -> None:
    name_server_page.fail(503)
    with pytest.raises(urllib.error.HTTPError, match="503"):
        _get(name_server_page.url)
    name_server_page.redirect(f"{name_server_page.url}/elsewhere")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        _get(name_server_page.url)
    name_server_page.redirect(PATH)
    with pytest.raises(urllib.error.HTTPError, match="redirect"):
        _get(name_server_page.url)


def test_it_never_answers(name_server_page: NameServerPage) -> None:
    name_server_page.hang()
    with pytest.raises(TimeoutError):
        _get(name_server_page.url)
