"""What handlers receive and return: requests with typed fields, refusals, answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import loads

if TYPE_CHECKING:
    from .channel import Channel


# The remark that RocketMQ leaves in some answers that mean SUCCESS all the same.
UNSET_REMARK = "not set any response code"


class RefusalError(Exception):
    """A request that is answered with a code and a remark."""

    def __init__(self, code: ResponseCode, remark: str, **fields: object) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self._fields = fields

    def to_answer(self) -> Command:
        """Return the answer to send."""
        return answer(self.code, self.remark, b"", **self._fields)


class FailureError(RefusalError):
    """A request that fails inside RocketMQ: SYSTEM_ERROR with the text of a Java exception, and nothing else."""

    def __init__(self, remark: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, remark)


def ok(body: bytes = b"", *, remark: str | None = None, **fields: object) -> Command:
    """Return an answer with code SUCCESS; fields become texts as in Java."""
    return answer(ResponseCode.SUCCESS, remark, body, **fields)


def ok_json(value: Any, **fields: object) -> Command:
    """Return an answer with code SUCCESS and a body in fastjson's dialect."""
    return answer(ResponseCode.SUCCESS, None, dumps(value), **fields)


def ok_standard_json(value: Any, **fields: object) -> Command:
    """Return an answer with code SUCCESS and a body in strict JSON, even where keys are numbers."""
    return answer(
        ResponseCode.SUCCESS, None, json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), **fields
    )


def answer(code: int, remark: str | None = None, body: bytes = b"", **fields: object) -> Command:
    """Return an answer; None fields are omitted."""
    texts = {name: java_text(value) for name, value in fields.items() if value is not None}
    return Command(code, texts, body, remark=remark)


def java_text(value: object) -> str:
    """Return a field's text as in Java."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


def is_blank(text: str | None) -> bool:
    """Return whether a field is missing or blank (UtilAll.isBlank)."""
    return text is None or not text.strip()


def require_text(body: dict[str, Any], name: str) -> str:
    """Return a text of a JSON body. Raises FailureError, as Java fails, when it is missing."""
    value = body.get(name)
    if value is None:
        raise FailureError(f"java.lang.NullPointerException: the request has no {name}")
    return str(value)


_NO_FIELD = object()


class Request:
    """One request with its connection.

    Missing fields and invalid numbers raise RefusalError with SYSTEM_ERROR: RocketMQ does not check fields, and fails
    with a NullPointerException on the first one that it uses.
    """

    __slots__ = ("channel", "command", "fields")

    def __init__(self, command: Command, channel: Channel) -> None:
        self.command = command
        self.fields = command.ext_fields
        self.channel = channel

    def text(self, name: str, default: Any = _NO_FIELD) -> Any:
        """Return a text field, or the default when it is missing."""
        value = self.fields.get(name)
        if value is not None:
            return value
        return self._missing(name) if default is _NO_FIELD else default

    def number(self, name: str, default: Any = _NO_FIELD) -> Any:
        """Return a 64-bit number, or the default when the field is missing or not a number."""
        try:
            value = int(self.fields[name])
            if -(2**63) <= value < 2**63:
                return value
        except (KeyError, ValueError):
            pass
        return self._missing(name) if default is _NO_FIELD else default

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean field (Boolean.parseBoolean)."""
        value = self.fields.get(name)
        return default if value is None else value.lower() == "true"

    def require_body(self) -> None:
        """Raise FailureError, as Java fails, when the request has no body."""
        if not self.command.body:
            self._missing("body")

    def _missing(self, name: str) -> Any:
        raise FailureError(f"java.lang.NullPointerException: the request has no field {name}")

    def json(self) -> Any:
        """Return the decoded JSON body. Raises RemoteProtocolError."""
        return loads(self.command.body)

    def reply(self, response: Command) -> None:
        """Send the answer; for handlers that returned None because they had to wait."""
        self.channel.reply(self.command, response)
