"""Version and language numbers of the remoting header.

Source: the ordinals of org.apache.rocketmq.common.MQVersion.Version and the codes of
org.apache.rocketmq.remoting.protocol.LanguageCode, both of 5.4.0.
"""

from __future__ import annotations

from enum import IntEnum, unique

V4_9_4 = 401  # the first client that a name server answers with standard JSON routes
V5_0_0 = 413
V5_5_0 = 513
OUR_VERSION = 475  # V5_3_1: new enough for standard JSON routes, old enough that brokers do not send it GO_AWAY (1500)

_V4_0_0_SNAPSHOT = 212
_HIGHER_VERSION = 612  # the last entry, shown for anything above V5_9_9

_BEFORE_4 = {  # the entries before 4.0 follow no rule: these are those that RocketMQ checks for, and their neighbours
    0: "V3_0_0_SNAPSHOT",
    27: "V3_0_6",
    28: "V3_0_7_SNAPSHOT",
    37: "V3_0_11",
    61: "V3_1_7",
    62: "V3_1_8_SNAPSHOT",
    79: "V3_2_6",
    121: "V3_4_9",
}


@unique
class Language(IntEnum):
    """The language that a peer reports; RUST and NODE_JS only since 5.x."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


def version_name(ordinal: int) -> str:
    """Return the MQVersion name of an ordinal, for example `V5_4_0` or `V4_9_7_SNAPSHOT`.

    An older ordinal without a known name gives `ORDINAL_<ordinal>`, anything above V5_9_9 `HIGHER_VERSION`.
    """
    if ordinal >= _HIGHER_VERSION:
        return "HIGHER_VERSION"
    if ordinal < _V4_0_0_SNAPSHOT:
        return _BEFORE_4.get(ordinal, f"ORDINAL_{ordinal}")
    majors, rest = divmod(ordinal - _V4_0_0_SNAPSHOT, 200)
    minor, rest = divmod(rest, 20)
    patch, released = divmod(rest, 2)
    return f"V{4 + majors}_{minor}_{patch}{'' if released else '_SNAPSHOT'}"


def plain_version(name: str) -> str:
    """Return a version's name (MQVersion) with dots (`V5_4_0` as `5.4.0`), or HIGHER_VERSION and the like unchanged."""
    return name.removeprefix("V").replace("_", ".") if name[1:2].isdigit() else name


def version_ordinal(major: int, minor: int, patch: int) -> int:
    """Return the ordinal of a released version from 4.0.0 to 5.9.9. Raises ValueError for any other."""
    if not (4 <= major <= 5 and 0 <= minor <= 9 and 0 <= patch <= 9):
        raise ValueError(f"MQVersion has no regular entry for {major}.{minor}.{patch}")
    return _V4_0_0_SNAPSHOT + 1 + 200 * (major - 4) + 20 * minor + 2 * patch


def language_name(ordinal: int) -> str:
    """Return the name of a language code; an unknown one is `OTHER`."""
    try:
        return Language(ordinal).name
    except ValueError:
        return Language.OTHER.name
