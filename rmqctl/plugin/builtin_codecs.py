"""The codecs that rmqctl brings along, registered like a plugin's."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from .hookspecs import BodyCodec, hookimpl


def _base64(body: bytes, properties: Mapping[str, str], topic: str) -> str:  # noqa: ARG001
    """Read a body that is Base64 of a text."""
    return base64.b64decode(body, validate=True).decode()


def _msgpack(body: bytes, properties: Mapping[str, str], topic: str) -> Any:  # noqa: ARG001
    """Read MessagePack into plain values; bytes become Base64."""
    return msgspec.to_builtins(msgspec.msgpack.decode(body), str_keys=True)


@hookimpl
def rmqctl_body_codecs() -> Mapping[str, BodyCodec]:
    """See hookspecs."""
    return {"base64": _base64, "msgpack": _msgpack}
