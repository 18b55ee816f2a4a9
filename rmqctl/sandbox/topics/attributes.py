"""Attributes of topics and groups, and how requests change them (AttributeParser, AttributeUtil; since 5.0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.request import RefusalError

_Check = Callable[[str], None]
_MAX_LONG = 2**63 - 1


def _one_of(*values: str) -> _Check:
    def check(value: str) -> None:
        if value not in values:
            raise _refusal(f"value is not in set: [{', '.join(values)}]")

    return check


def _between(low: int, high: int) -> _Check:
    def check(value: str) -> None:
        try:
            number = int(value)
        except ValueError:
            raise _refusal(f'For input string: "{value}"') from None
        if not low <= number <= high:
            raise _refusal(f"value is not in range({low}, {high})")

    return check


def _any_text(_: str) -> None:
    """Accept any value (StringAttribute)."""


def _boolean(value: str) -> None:
    if value.lower() not in ("true", "false"):
        raise _refusal("boolean attribute format is wrong.")


# By name: whether it may change once it is set, and a check of its value. Sets are in the order of Java's hashes.
Schema = Mapping[str, tuple[bool, _Check]]
_TOPIC_ATTRIBUTES: Schema = {
    "queue.type": (False, _one_of("SimpleCQ", "BatchCQ")),
    "cleanup.policy": (False, _one_of("DELETE", "COMPACTION")),
    "message.type": (True, _one_of("UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "NORMAL")),
    "reserve.time": (True, _between(-1, _MAX_LONG)),
}
_GROUP_ATTRIBUTES: Schema = {"priority.factor": (True, _between(0, 100))}
# Of lite topics (RIP-83, since 5.5).
_TYPES_WITH_LITE = ("UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL")
_LITE_TOPIC_ATTRIBUTES: Schema = {
    "message.type": (True, _one_of(*_TYPES_WITH_LITE)),
    "lite.topic.expiration": (True, _between(-1, 30 * 24 * 60)),
}
_LITE_GROUP_ATTRIBUTES: Schema = {
    "lite.bind.topic": (True, _any_text),
    "lite.sub.model": (True, _one_of("Exclusive", "Shared")),
    "lite.sub.reset.offset.exclusive": (True, _boolean),
    "lite.sub.reset.offset.unsubscribe": (True, _boolean),
    "lite.sub.client.quota": (True, _between(-1, _MAX_LONG)),
    "lite.sub.client.max.event.cnt": (True, _between(10, _MAX_LONG)),
    "lite.sub.wildcard": (True, _any_text),
}


def topic_attributes(profile: Profile) -> Schema:
    """Return the attributes that topics of a release can have (TopicAttributes)."""
    return {**_TOPIC_ATTRIBUTES, **(_LITE_TOPIC_ATTRIBUTES if profile.is_5_5 else {})}


def group_attributes(profile: Profile) -> Schema:
    """Return the attributes that groups of a release can have (SubscriptionGroupAttributes)."""
    return {**_GROUP_ATTRIBUTES, **(_LITE_GROUP_ATTRIBUTES if profile.is_5_5 else {})}


def parse_changes(text: str) -> dict[str, str]:
    """Parse a text like `+message.type=FIFO,-reserve.time` into signed changes. Raises RefusalError."""
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        if "=" in part:
            pieces = part.rstrip("=").split("=")
            name = pieces[0]
            if len(pieces) < 2:
                raise _refusal("Index 1 out of bounds for length 1")
            if "+" not in name:
                raise _refusal(f"add/alter attribute format is wrong: {name}")
            value = pieces[1]
        else:
            name, value = part, ""
            if "-" not in name:
                raise _refusal(f"delete attribute format is wrong: {name}")
        if name in changes:
            raise _refusal(f"key duplication: {name}")
        changes[name] = value
    return changes


def altered(schema: Schema, current: Mapping[str, str], changes: Mapping[str, str], *, is_new: bool) -> dict[str, str]:
    """Return the attributes after changes whose names start with + or -. Raises RefusalError."""
    sets: dict[str, str] = {}
    removed: set[str] = set()
    for signed, value in changes.items():
        name = signed[1:]
        if not name:
            raise _refusal("kv string format wrong.")
        if name in sets or name in removed:
            raise _refusal(f"alter duplication key. key: {name}")
        if signed[0] == "+":
            sets[name] = value
        elif is_new:
            raise _refusal(f"only add attribute is supported while creating topic. key: {name}")
        elif signed[0] != "-":
            raise _refusal(f"wrong format key: {name}")
        elif name not in current:
            raise _refusal(f"attempt to delete a nonexistent key: {name}")
        else:
            removed.add(name)
    for name in (*sets, *removed):
        if name not in schema:
            raise _refusal(f"unsupported key: {name}")
        may_change, check = schema[name]
        if not may_change and not is_new:
            raise _refusal(f"attempt to update an unchangeable attribute. key: {name}")
        if name in sets:
            check(sets[name])
    return {name: value for name, value in {**current, **sets}.items() if name not in removed}


def _refusal(remark: str) -> RefusalError:
    return RefusalError(ResponseCode.SYSTEM_ERROR, remark)
