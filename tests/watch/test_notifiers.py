"""Notifiers: one attempt each, and no secrets in what is printed."""

from __future__ import annotations

import json
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from rmqctl.errors import PluginError, RmqctlError, UsageError
from rmqctl.plugin.loader import notifiers
from rmqctl.watch.notifiers import BUILT_IN, notify_webhook, parse_target
from tests.cli.calls import closed_address

_ALERTS = {
    "text": "STALL: pay.", "alertCount": 1,
    "items": [{"alert": "OPENED", "incident": "i", "cluster": "C", "group": "pay", "health": "STALL", "rule": "R"}],
}  # fmt: skip


class _Hook:
    """A server that answers with codes, one after the other, and keeps what it got."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.bodies: list[Any] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(hook.codes.pop(0))
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret-token"
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.01])
        self.thread.start()


@pytest.fixture
def hook() -> Iterator[_Hook]:
    running = _Hook()
    yield running
    running.server.shutdown()
    running.server.server_close()
    running.thread.join()


@pytest.mark.parametrize(("code", "is_delivered"), [(200, True), (204, True), (503, False), (429, False), (400, False)])
def test_a_webhook_gets_the_alerts_once(hook: _Hook, code: int, is_delivered: bool) -> None:
    hook.codes = [code]
    with nullcontext() if is_delivered else pytest.raises(RmqctlError, match=rf"127.0.0.1: it answered {code}\."):
        notify_webhook(_ALERTS, hook.url)
    assert hook.bodies == [_ALERTS]


def test_a_webhook_that_is_not_there_does_not_reveal_its_path() -> None:
    with pytest.raises(RmqctlError) as caught:
        notify_webhook(_ALERTS, f"http://{closed_address()}/secret-token")
    assert "secret" not in caught.value.sentence
    assert "refused" in caught.value.sentence


def test_a_command_gets_the_alerts_and_their_main_values(tmp_path: Path) -> None:
    out = tmp_path / "out"
    BUILT_IN["command"](_ALERTS, f"sh -c 'cat > {out}; echo $RMQCTL_GROUP $RMQCTL_HEALTH $RMQCTL_TEXT >> {out}'")
    body, line = out.read_text().split("}pay", 1)
    assert json.loads(body + "}") == _ALERTS
    assert line.strip() == "STALL STALL: pay."
    with pytest.raises(RmqctlError, match="exited with 3: no pager"):
        BUILT_IN["command"](_ALERTS, "sh -c 'echo no pager >&2; exit 3'")


def test_a_file_gets_a_line_for_each_notification(tmp_path: Path) -> None:
    for _ in range(2):
        BUILT_IN["file"](_ALERTS, str(tmp_path / "alerts"))
    assert [json.loads(line) for line in (tmp_path / "alerts").read_text().splitlines()] == [_ALERTS] * 2
    with pytest.raises(RmqctlError, match="no such file"):
        BUILT_IN["file"](_ALERTS, str(tmp_path / "missing" / "alerts"))


def test_a_file_on_a_full_disk_keeps_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "alerts"
    BUILT_IN["file"](_ALERTS, str(path))
    before = path.read_bytes()
    limits, action = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 9, limits[1]))
    try:
        with pytest.raises(RmqctlError, match="file too large"):
            BUILT_IN["file"](_ALERTS, str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, action)
    assert path.read_bytes() == before


def test_targets_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("https://hooks.example/secret\n")
    target = parse_target(f"webhook:@{secret}", BUILT_IN)
    assert target.text == "https://hooks.example/secret"
    # A corrected URL is the same target.
    secret.write_text("https://hooks.example/other")
    assert parse_target(f"webhook:@{secret}", BUILT_IN).id == target.id
    assert parse_target("http://x.example/a", BUILT_IN).id == parse_target("webhook:http://x.example/a", BUILT_IN).id
    for text, label in (
        ("https://x.example/a", "webhook"),
        ("file:/tmp/x:y", "file"),
        ("command:sh -c 'a:b'", "command"),
    ):
        target = parse_target(text, BUILT_IN)
        assert (target.label, target.text) == (label, text.removeprefix(f"{label}:"))


@pytest.mark.parametrize(
    "text",
    ["", "pager", "pager:1", "webhook:", "webhook:ftp://x", "webhook:/path", "webhook:@/missing", "command:", "file:",
     "command:no-such-command", "command:sh 'open"],
)  # fmt: skip
def test_a_wrong_target_is_refused_before_the_watch_begins(text: str) -> None:
    with pytest.raises(UsageError, match="--notify"):
        parse_target(text, BUILT_IN)


def test_a_plugin_brings_a_notifier(tmp_path: Path) -> None:
    plugin = tmp_path / "pager.py"
    plugin.write_text(
        "import pathlib\n"
        "from rmqctl.plugin import hookimpl\n"
        "def page(alerts, target):\n"
        "    if target == 'bad': raise ValueError('no such team')\n"
        f"    pathlib.Path({str(tmp_path / 'paged')!r}).write_text(target + ' ' + alerts['text'])\n"
        "@hookimpl\n"
        "def rmqctl_notifiers():\n"
        "    return {'pager': page}\n"
    )
    known = notifiers([str(plugin)], {})
    assert {"webhook", "command", "file", "pager"} <= known.keys()
    target = parse_target("pager:team", known)
    target.notifier(_ALERTS, target.text)
    assert (tmp_path / "paged").read_text() == "team STALL: pay."
    with pytest.raises(PluginError, match="no such team"):
        partial(known["pager"], _ALERTS)("bad")
