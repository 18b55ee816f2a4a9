"""Text encodings as body codecs: every encoding that Python knows by name, for example gbk, shift_jis or utf-16."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from encodings.aliases import aliases

from .hookspecs import BodyCodec


def text_codec(name: str) -> BodyCodec | None:
    """Return a codec for bodies in this encoding, or None when Python does not know it as a text encoding."""
    if not _is_known(name):
        return None

    def decode(body: bytes, properties: Mapping[str, str], topic: str) -> str:  # noqa: ARG001
        return body.decode(name)

    return decode


def encoding_names() -> Iterator[str]:
    """Return the names to suggest for an unknown one."""
    return (name for name in sorted({*aliases, *aliases.values()}) if _is_known(name))


def _is_known(name: str) -> bool:
    try:
        # Not an empty body: Python returns it without checking the name.
        b"  ".decode(name)
    except LookupError:  # also raised for codecs that do not decode to text, for example zlib
        return False
    except ValueError:
        # The encoding exists, but two spaces are not valid in it; a name with a NUL is not an encoding.
        return "\0" not in name
    return True
