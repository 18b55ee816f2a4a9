"""Message bodies as text: JSON, plain text or a hex dump, within bounds. Nothing in a body can hurt the terminal."""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from rmqctl.errors import PluginError, RmqctlError
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.plugin.hookspecs import BodyCodec

MODES = ("auto", "text", "json", "hex", "none")
DEFAULT_MAX_BYTES = 1024 * 1024
_EXCERPT_LENGTH = 60
_AUTO_HEX_BYTES = 512  # of a binary body, unless hex was requested
_HEX_WIDTH = 16
# Deeper values cannot be written in every format: PyYAML fails below 500.
_MAX_DEPTH = 100


class BodyStyle(Struct, frozen=True):
    """How to show bodies: one of MODES, or a codec; `max_bytes` of each are shown, 0 for all."""

    mode: str = "auto"
    codec_name: str | None = None
    codec: BodyCodec | None = None
    max_bytes: int = DEFAULT_MAX_BYTES


def body_fields(body: bytes, properties: Mapping[str, str], topic: str, style: BodyStyle) -> dict[str, Any]:
    """Return the JSON keys of a body: `body` and `bodyBase64`, `bodyTruncated`; a null's reason under "reason".

    Raises PluginError when the codec fails.
    """
    if style.mode == "none":
        return {"body": None, "bodyTruncated": False, "reason": "NOT_ASKED"}
    if style.codec is not None and style.codec_name is not None:
        from rmqctl.plugin.loader import run_codec

        value = run_codec(style.codec_name, style.codec, body, properties, topic)
        if _is_too_deep(value):
            raise PluginError(f"Codec {style.codec_name} failed: its value is nested more than {_MAX_DEPTH} deep.")
        return _bounded(value, style)
    shown = body if not style.max_bytes else body[: style.max_bytes]
    is_cut = len(shown) < len(body)
    if style.mode == "hex":
        return {"body": shown.hex(), "bodyTruncated": is_cut}
    if style.mode == "json":
        value, reason = (None, "TRUNCATED") if is_cut else _json_value(shown)
        fields = {"body": value, "bodyTruncated": is_cut}
        return fields if reason is None else {**fields, **_raw(shown), "reason": reason}
    text = _text(shown, is_cut=is_cut)
    if text is None:
        return {"body": None, **_raw(shown), "bodyTruncated": is_cut, "reason": "NOT_UTF8"}
    return {"body": text, "bodyTruncated": is_cut}


def _raw(shown: bytes) -> dict[str, Any]:
    return {"bodyBase64": base64.b64encode(shown).decode()}


def _bounded(value: Any, style: BodyStyle) -> dict[str, Any]:
    """Return a codec's value, or the beginning of its text if it is too large."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if style.max_bytes and len(text) > style.max_bytes:
        return {"body": text[: style.max_bytes], "bodyTruncated": True}
    return {"body": value, "bodyTruncated": False}


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """Return UTF-8 as text, None for other data; a character that the cut divides is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not is_cut)
    except UnicodeDecodeError:
        return None


def _json_value(data: bytes) -> tuple[Any, str | None]:
    try:
        value = json.loads(data)
        json.dumps(value, allow_nan=False)  # Python reads NaN and 1e999, and would write invalid JSON
    except (ValueError, RecursionError):
        # Nested too deeply, numbers of thousands of digits, or not JSON.
        return None, "NOT_JSON"
    return (None, "NESTED_TOO_DEEPLY") if _is_too_deep(value) else (value, None)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list | tuple)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def excerpt(item: Mapping[str, Any]) -> str:
    """Return the beginning of an item's body in one line, for a table."""
    if item.get("error") is not None:
        return f"({item['error']})"
    body = item["body"]
    if body is None:
        data = base64.b64decode(item.get("bodyBase64", ""))
        return f"({data[:16].hex(' ')}{'...' if len(data) > 16 else ''})" if data else "-"
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    line = " ".join(text[: 4 * _EXCERPT_LENGTH].split())
    return line if len(line) <= _EXCERPT_LENGTH and len(text) <= 4 * _EXCERPT_LENGTH else f"{line[:_EXCERPT_LENGTH]}..."


def body_lines(item: Mapping[str, Any], mode: str) -> tuple[str, list[str]]:
    """Return the format that an item's body is shown in, and its lines."""
    body = item["body"]
    if mode == "none" or (body is None and "bodyBase64" not in item):
        return "not shown", []
    if mode == "hex":
        return "hex", _hex_lines(bytes.fromhex(body))
    if body is None:
        data = base64.b64decode(item["bodyBase64"])
        return _dump(data, mode)
    if not isinstance(body, str):
        return "JSON", json.dumps(body, ensure_ascii=False, indent=2).split("\n")
    if mode == "auto":
        pretty = _pretty(body)
        if pretty is not None:
            return "JSON", pretty.split("\n")
        if not all(letter.isprintable() or letter in "\n\r\t" for letter in body):
            return _dump(body.encode(errors="surrogatepass"), mode)
    # Not splitlines(): it drops the characters that it splits at, and hidden ones must be visible.
    lines = body.replace("\r\n", "\n").removesuffix("\n").split("\n") if body else []
    return "text", [line.expandtabs(4) for line in lines]


def _dump(data: bytes, mode: str) -> tuple[str, list[str]]:
    """Return a hex dump, shortened unless it was requested."""
    if mode != "auto" or len(data) <= _AUTO_HEX_BYTES:
        return "hex", _hex_lines(data)
    rest = len(data) - _AUTO_HEX_BYTES
    return "hex", [*_hex_lines(data[:_AUTO_HEX_BYTES]), f"... {counted(rest, 'more byte')}; --body hex shows them"]


def _pretty(text: str) -> str | None:
    """Return a JSON object or array with a line for each member, numbers as written; None for anything else."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.format(text.encode(), indent=2).decode()
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _hex_lines(data: bytes) -> list[str]:
    lines = []
    for at in range(0, len(data), _HEX_WIDTH):
        row = data[at : at + _HEX_WIDTH]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):<{_HEX_WIDTH * 3 - 1}}  {letters}")
    return lines


def unreadable(error: RmqctlError) -> dict[str, Any]:
    """Return the JSON keys of a body that cannot be read."""
    return {"body": None, "bodyTruncated": False, "reason": error.name}
