"""Text encodings as codecs of bodies: every one that Python knows by name, such as gbk, shift_jis or utf-16."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from encodings.aliases import aliases

from .hookspecs import BodyCodec


def text_codec(name: str) -> BodyCodec | None:
    """Return what reads bodies in an encoding, None for a name that Python does not know as one of texts."""
    if not _is_known(name):
        return None

    def decode(body: bytes, properties: Mapping[str, str], topic: str) -> str:  # noqa: ARG001
        return body.decode(name)

    return decode


def encoding_names() -> Iterator[str]:
    """Return the names that may be meant by one that is not known."""
    return (name for name in sorted({*aliases, *aliases.values()}) if _is_known(name))


def _is_known(name: str) -> bool:
    try:
        # Not of an empty body: Python returns that without looking at the name.
        b"  ".decode(name)
    except LookupError:  # also of what is no encoding of texts, such as zlib
        return False
    except ValueError:
        # Two blanks are none of its texts, which is known then; a name with a NUL is none.
        return "\0" not in name
    return True
