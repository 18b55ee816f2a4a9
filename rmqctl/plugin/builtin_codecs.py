"""The built-in codecs, registered like those of a plugin."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from .hookspecs import BodyCodec, hookimpl


def _base64(body: bytes, properties: Mapping[str, str], topic: str) -> str:  # noqa: ARG001
    """Decode a body of Base64-encoded text."""
    return base64.b64decode(body, validate=True).decode()


def _msgpack(body: bytes, properties: Mapping[str, str], topic: str) -> Any:  # noqa: ARG001
    """Decode MessagePack into plain values; bytes become Base64."""
    return msgspec.to_builtins(msgspec.msgpack.decode(body), str_keys=True)


@hookimpl
def rmqctl_body_codecs() -> Mapping[str, BodyCodec]:
    """See hookspecs."""
    return {"base64": _base64, "msgpack": _msgpack}
