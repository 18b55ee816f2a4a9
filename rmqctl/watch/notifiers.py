"""Delivers alerts: to a webhook, a command, a file, or a plugin's notifier.

A notifier accepts the alerts of one round (items.notification) and its target, the text after its name. It raises when
it fails.
It runs in a thread of its own, so a slow one delays no reading.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Full, Queue
from shlex import split
from threading import Thread
from typing import Any

from msgspec import Struct

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.text.names import hint_for

from .items import environment_of

Notifier = Callable[[Mapping[str, Any], str], None]

_TRY_AGAIN_S = (1.0, 5.0, 20.0)
_ANSWER_S = 10.0
_COMMAND_S = 30.0
_MOST_WAITING = 1000
_FROM_FILE = "@"


def notify_webhook(alerts: Mapping[str, Any], target: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Post alerts as JSON. Tries again when the server is not reachable, is busy (429) or fails (5xx).

    Raises RmqctlError; it names only the host, because the path of a webhook is often a secret.
    """
    import httpx

    url = httpx.URL(target)
    problem = ""
    for pause_s in (*_TRY_AGAIN_S, None):
        try:
            answer = httpx.post(url, json=dict(alerts), timeout=_ANSWER_S)
        except httpx.HTTPError as error:
            problem = str(error) or type(error).__name__
        else:
            if answer.is_success:
                return
            problem = f"it answered {answer.status_code}"
            if answer.status_code != httpx.codes.TOO_MANY_REQUESTS and not answer.is_server_error:
                break
        if pause_s is not None:
            sleep(pause_s)
    raise RmqctlError(f"{url.host}: {problem.rstrip('.')}.")


def notify_command(alerts: Mapping[str, Any], target: str) -> None:
    """Run a command with the alerts as JSON on standard input, and its main values in the environment."""
    words = split(target)
    try:
        done = subprocess.run(  # noqa: S603 -- the user's own command
            words, input=json.dumps(alerts).encode(), env={**os.environ, **environment_of(alerts)},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_COMMAND_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RmqctlError(f"{words[0]} did not end within {_COMMAND_S:.0f} s.") from None
    except OSError as error:
        raise RmqctlError(f"{words[0]}: {(error.strerror or str(error)).lower()}.") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise RmqctlError(f"{words[0]} exited with {done.returncode}{f': {said[-1]}' if said else ''}.")


def notify_file(alerts: Mapping[str, Any], target: str) -> None:
    """Append alerts to a file, as a line of JSON."""
    try:
        with Path(target).open("ab") as file:
            file.write(json.dumps(alerts).encode() + b"\n")
    except OSError as error:
        raise RmqctlError(f"{target}: {(error.strerror or str(error)).lower()}.") from None


BUILT_IN: Mapping[str, Notifier] = {"webhook": notify_webhook, "command": notify_command, "file": notify_file}


class NotifyTarget(Struct, frozen=True):
    """Where alerts go: a notifier and the text that it gets. `label` shows no secret."""

    label: str
    notifier: Notifier
    text: str


def parse_target(text: str, notifiers: Mapping[str, Notifier]) -> NotifyTarget:
    """Read NAME:TEXT; a text @FILE is read from a file. Raises UsageError."""
    if text.startswith(("http://", "https://")):
        text = f"webhook:{text}"
    name, colon, target = text.partition(":")
    if not colon or name not in notifiers:
        hint = "Use webhook:URL, command:COMMAND, file:FILE, or a plugin's notifier."
        raise UsageError(f"Unknown notifier {name!r} in --notify.", hint=hint_for(name, notifiers, otherwise=hint))
    if target.startswith(_FROM_FILE):
        try:
            target = Path(target.removeprefix(_FROM_FILE)).read_text().strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a text file"
            raise UsageError(f"Cannot read {target[1:]} of --notify: {reason.lower()}.") from None
    if not target:
        raise UsageError(f"--notify {name}: the target is missing.", hint=f"Use {name}:TARGET.")
    if name == "webhook":
        _require_url(target)
    if name == "command":
        _require_command(target)
    return NotifyTarget(name, notifiers[name], target)


def _require_url(target: str) -> None:
    import httpx

    try:
        url = httpx.URL(target)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError("--notify webhook: the target is not an http or https URL.")


def _require_command(target: str) -> None:
    from shutil import which

    try:
        words = split(target)
    except ValueError as error:
        raise UsageError(f"--notify command: {str(error).lower()}.") from None
    if not words or which(words[0]) is None:
        raise UsageError(f"--notify command: {words[0] if words else target} is not an executable command.")


class Delivery:
    """Delivers alerts to one target, one after the other, in a thread. `on_failure` is called with each failure."""

    def __init__(self, target: NotifyTarget, on_failure: Callable[[str], None]) -> None:
        self._target = target
        self._on_failure = on_failure
        self._waiting: Queue[Mapping[str, Any] | None] = Queue(_MOST_WAITING)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, alerts: Mapping[str, Any]) -> None:
        """Deliver alerts soon. If too many are waiting, they are reported as failed."""
        try:
            self._waiting.put_nowait(alerts)
        except Full:
            self._on_failure(f"{self._target.label}: {_MOST_WAITING} notifications are waiting already.")

    def close(self, wait_s: float) -> bool:
        """Deliver what is waiting; return whether that succeeded within `wait_s`."""
        try:
            self._waiting.put(None, timeout=wait_s)
        except Full:
            return False
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (alerts := self._waiting.get()) is not None:
            try:
                self._target.notifier(alerts, self._target.text)
            except Exception as error:  # noqa: BLE001 -- if the thread ended, nothing more would be delivered
                reason = error.sentence if isinstance(error, RmqctlError) else f"{type(error).__name__}."
                self._on_failure(f"{self._target.label}: {reason} Not delivered: {alerts['text']}")
