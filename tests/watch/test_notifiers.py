"""Notifiers: delivered once they can be, retried where that helps, and without secrets in what is printed."""

from __future__ import annotations

import json
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
from rmqctl.watch.notifiers import BUILT_IN, Delivery, NotifyTarget, notify_webhook, parse_target
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
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()


@pytest.fixture
def hook() -> Iterator[_Hook]:
    running = _Hook()
    yield running
    running.server.shutdown()
    running.server.server_close()
    running.thread.join()


@pytest.mark.parametrize(
    ("codes", "pauses", "is_delivered"),
    [
        ([200], [], True),
        ([503, 429, 204], [1, 5], True),
        ([500] * 4, [1, 5, 20], False),
        ([400], [], False),
    ],
)
def test_a_webhook_is_tried_again_where_that_can_help(
    hook: _Hook, codes: list[int], pauses: list[float], is_delivered: bool
) -> None:
    slept: list[float] = []
    hook.codes = list(codes)
    with nullcontext() if is_delivered else pytest.raises(RmqctlError, match=f"it answered {codes[-1]}"):
        notify_webhook(_ALERTS, hook.url, sleep=slept.append)
    assert (slept, hook.bodies) == (pauses, [_ALERTS] * len(codes))


def test_a_webhook_that_is_not_there_does_not_reveal_its_path() -> None:
    with pytest.raises(RmqctlError) as caught:
        notify_webhook(_ALERTS, f"http://{closed_address()}/secret-token", sleep=lambda _: None)
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


def test_targets_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("https://hooks.example/secret\n")
    assert parse_target(f"webhook:@{secret}", BUILT_IN).text == "https://hooks.example/secret"
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


def test_a_failing_notifier_is_reported_and_the_next_alerts_are_delivered() -> None:
    delivered: list[str] = []
    failures: list[str] = []

    def notifier(alerts: Any, target: str) -> None:
        if alerts["text"] == "a":
            raise RmqctlError("No pager.")
        if alerts["text"] == "b":
            raise ValueError("token in an URL")
        delivered.append(f"{target} {alerts['text']}")

    delivery = Delivery(NotifyTarget("pager", notifier, "team"), failures.append)
    for text in "abcd":
        delivery.send({"text": text})
    assert delivery.close(60)
    assert delivered == ["team c", "team d"]
    assert failures == ["pager: No pager. Not delivered: a", "pager: ValueError. Not delivered: b"]


def test_alerts_beyond_what_can_wait_are_reported_and_the_end_is_not_waited_for_forever() -> None:
    is_free = threading.Event()
    failures: list[str] = []
    delivery = Delivery(NotifyTarget("slow", lambda *_: is_free.wait(60) and None, "x"), failures.append)
    for _ in range(1002):
        delivery.send({"text": "a"})
    assert set(failures) == {"slow: 1000 notifications are waiting already."}
    assert not delivery.close(0.01)
    is_free.set()
    assert delivery.close(60)


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
