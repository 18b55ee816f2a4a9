"""One command of the remoting protocol (RemotingCommand), and its header in both encodings."""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import Annotated, Any

import msgspec
from msgspec import Struct, field

from rmqctl.errors import LocalProtocolError, RemoteProtocolError

from .flags import CommandFlag
from .versions import OUR_VERSION, Language, language_name


class HeaderEncoding(IntEnum):
    """The frame's fifth byte (SerializeType)."""

    JSON = 0
    ROCKETMQ = 1


class Command(Struct, frozen=True):
    """A request or a response. `ext_fields` is the custom header, text to text for every field.

    `code` is a request code or a response code; `opaque` pairs a response with its request; `version` is the sender's
    MQVersion ordinal; `language` is the sender's LanguageCode name, "OTHER" when RocketMQ has no such name.
    """

    code: int
    ext_fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: str = "PYTHON"
    version: int = OUR_VERSION
    encoding: HeaderEncoding = HeaderEncoding.JSON

    @property
    def is_response(self) -> bool:
        """Whether this command answers a request."""
        return bool(self.flag & CommandFlag.RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender expects no answer."""
        return bool(self.flag & CommandFlag.ONEWAY)


def encode_header(command: Command) -> bytes:
    """Return the header in the command's own encoding. Raises LocalProtocolError for values that do not fit it."""
    if command.encoding is HeaderEncoding.JSON:
        return _encode_json(command)
    return _encode_rocketmq(command)


def decode_header(encoding: int, header: bytes, body: bytes) -> Command:
    """Decode a header; the body stays as received. Raises RemoteProtocolError for an invalid header."""
    if encoding == HeaderEncoding.JSON:
        return _decode_json(header, body)
    if encoding == HeaderEncoding.ROCKETMQ:
        return _decode_rocketmq(header, body)
    raise RemoteProtocolError(f"The peer sent a frame with header encoding {encoding}; only 0 and 1 exist.")


def _encode_json(command: Command) -> bytes:
    # Key order and spacing are fastjson's, so that recorded frames are reproduced byte for byte.
    header: dict[str, Any] = {"code": command.code}
    if command.ext_fields:
        header["extFields"] = command.ext_fields
    header["flag"] = command.flag
    header["language"] = command.language
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    try:
        return _write_json(header)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"Text that is not valid Unicode cannot be sent: {error.object!r}.") from None


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class _Header(Struct):
    """A header as every known peer writes it."""

    code: _Int32 = 0
    extFields: dict[str, str] | None = None  # noqa: N815 - the wire's name
    flag: _Int32 = 0
    language: str = "JAVA"
    opaque: _Int32 = 0
    remark: str | None = None
    version: _Int32 = 0


_write_json = msgspec.json.Encoder().encode
_read_header = msgspec.json.Decoder(_Header).decode


def _decode_json(header: bytes, body: bytes) -> Command:
    # Headers that a typed parser rejects, or reads less strictly, go to a parser that reports what is wrong.
    if header.isascii():
        try:
            read = _read_header(header)
        except (msgspec.DecodeError, RecursionError):
            return _decode_any_json(header, body)
        return Command(
            read.code, read.extFields or {}, body, read.opaque, read.flag, read.remark, _language(read.language),
            read.version,
        )  # fmt: skip
    return _decode_any_json(header, body)


def _decode_any_json(header: bytes, body: bytes) -> Command:
    try:
        # Decoded here, because json would guess UTF-16 and accept lone surrogates.
        fields = json.loads(header.decode())
        if not isinstance(fields, dict):
            raise RemoteProtocolError("The peer sent a header that is not a JSON object.")
        ext_fields = fields.get("extFields") or {}
        if not isinstance(ext_fields, dict):
            raise RemoteProtocolError("The peer sent a header whose extFields are not a JSON object.")
        texts = {key: _as_text(value) for key, value in ext_fields.items() if value is not None}
        remark = fields.get("remark")
        remark_text = None if remark is None else _as_text(remark)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"The peer sent a header that is not JSON ({error}).") from None
    return Command(
        code=_int_field(fields, "code"),
        ext_fields=texts,
        body=body,
        opaque=_int_field(fields, "opaque"),
        flag=_int_field(fields, "flag"),
        remark=remark_text,
        language=_language(fields.get("language", "JAVA")),
        version=_int_field(fields, "version"),
    )


def _int_field(fields: dict[str, Any], key: str) -> int:
    value = fields.get(key, 0)
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise RemoteProtocolError(f"The peer sent a header whose {key} is not a 32-bit number.")
    return value


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_LANGUAGES = frozenset(Language.__members__)


def _language(name: object) -> str:
    # LanguageCode: RocketMQ reads an unknown name as null; OTHER means the same without a null.
    return name if isinstance(name, str) and name in _LANGUAGES else "OTHER"


_FIXED = struct.Struct(">hbhiii")  # code, language, version, opaque, flag, remark length
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")


def _encode_rocketmq(command: Command) -> bytes:
    # RocketMQSerializable silently cuts codes to 16 bits, which turns a POP code into another one; refuse instead.
    if not -(2**15) <= command.code < 2**15:
        raise LocalProtocolError(f"Request code {command.code} does not fit the binary header; use the JSON header.")
    try:
        remark = (command.remark or "").encode()
        entries = bytearray()
        for key, value in command.ext_fields.items():
            key_bytes, value_bytes = key.encode(), value.encode()
            entries += _SHORT.pack(len(key_bytes)) + key_bytes + _INT.pack(len(value_bytes)) + value_bytes
        language = Language[command.language]
        fixed = _FIXED.pack(command.code, language, command.version, command.opaque, command.flag, len(remark))
    except (struct.error, UnicodeEncodeError, KeyError) as error:
        raise LocalProtocolError(f"Request {command.code} does not fit the binary header ({error}).") from None
    return fixed + remark + _INT.pack(len(entries)) + entries


def _decode_rocketmq(header: bytes, body: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
        at = _FIXED.size
        remark, at = _text(header, at, remark_length)
        (entries_length,) = _INT.unpack_from(header, at)
        at += _INT.size
        end = at + entries_length
        if entries_length < 0 or end > len(header):
            raise RemoteProtocolError("The peer sent a binary header whose fields are longer than the header.")
        ext_fields = {}
        while at < end:
            (length,) = _SHORT.unpack_from(header, at)
            key, at = _text(header, at + _SHORT.size, length)
            (length,) = _INT.unpack_from(header, at)
            ext_fields[key], at = _text(header, at + _INT.size, length)
        if at != end:
            raise RemoteProtocolError("The peer sent a binary header whose fields are longer than announced.")
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"The peer sent a binary header that cannot be read: {error}.") from None
    return Command(
        code, ext_fields, body, opaque, flag, remark or None, language_name(language), version, HeaderEncoding.ROCKETMQ
    )


def _text(header: bytes, at: int, length: int) -> tuple[str, int]:
    end = at + length
    if length < 0 or end > len(header):
        raise RemoteProtocolError("The peer sent a binary header with a text longer than the header.")
    return header[at:end].decode(), end
