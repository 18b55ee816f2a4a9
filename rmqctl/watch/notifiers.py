"""Notifiers deliver alerts once: to a webhook, a command, a file, or by a plugin's function.

A notifier accepts the alerts of one round (items.notification) and its target, the text after its name. It raises when
it fails; the outbox then calls it again.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from shlex import split
from typing import Any

from msgspec import Struct

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.text.names import hint_for

from .items import environment_of

Notifier = Callable[[Mapping[str, Any], str], None]

_ANSWER_S = 10.0
_COMMAND_S = 30.0
_FROM_FILE = "@"


def notify_webhook(alerts: Mapping[str, Any], target: str) -> None:
    """Post alerts as JSON. Raises RmqctlError; it names only the host, as the path of a webhook is often a secret."""
    import httpx

    url = httpx.URL(target)
    try:
        answer = httpx.post(url, json=dict(alerts), timeout=_ANSWER_S)
    except httpx.HTTPError as error:
        reason = (str(error) or type(error).__name__).rstrip(".")
        raise RmqctlError(f"{url.host}: {reason}.") from None
    if not answer.is_success:
        raise RmqctlError(f"{url.host}: it answered {answer.status_code}.")


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
        with Path(target).open("ab", buffering=0) as file:
            size = file.tell() if file.seekable() else None
            try:
                line = json.dumps(alerts).encode() + b"\n"
                while line:
                    line = line[file.write(line) :]
            except OSError:
                if size is not None:
                    with suppress(OSError):
                        file.truncate(size)  # the next attempt writes the whole line
                raise
    except OSError as error:
        raise RmqctlError(f"{target}: {(error.strerror or str(error)).lower()}.") from None


BUILT_IN: Mapping[str, Notifier] = {"webhook": notify_webhook, "command": notify_command, "file": notify_file}


class NotifyTarget(Struct, frozen=True):
    """Where alerts go: a notifier and the text that it gets. `label` and `id` show no secret.

    The id of NAME:@FILE is that of the file, so that notifications wait for a target whose URL was corrected.
    """

    label: str
    notifier: Notifier
    text: str
    id: str


def parse_target(text: str, notifiers: Mapping[str, Notifier]) -> NotifyTarget:
    """Read NAME:TEXT; a text @FILE is read from a file. Raises UsageError."""
    if text.startswith(("http://", "https://")):
        text = f"webhook:{text}"
    name, colon, target = text.partition(":")
    if not colon or name not in notifiers:
        hint = "Use webhook:URL, command:COMMAND, file:FILE, or a plugin's notifier."
        raise UsageError(f"Unknown notifier {name!r} in --notify.", hint=hint_for(name, notifiers, otherwise=hint))
    target_id = sha256(text.encode(errors="replace")).hexdigest()[:32]
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
    return NotifyTarget(name, notifiers[name], target, target_id)


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
