"""Message properties: name-value pairs encoded in one text (MessageDecoder.string2messageProperties)."""

from __future__ import annotations

from collections.abc import Mapping

_NAME_END = "\x01"
_PAIR_END = "\x02"
# MessageConst.KEY_SEPARATOR: other white space is part of a key.
_KEY_END = " "

UNIQ_KEY = "UNIQ_KEY"
TAGS = "TAGS"
KEYS = "KEYS"
SHARDING_KEY = "__SHARDINGKEY"
LITE_TOPIC = "__LITE_TOPIC"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"


def decode_properties(text: str) -> dict[str, str]:
    """Return the pairs; the last one wins for a duplicate name, which 4.9's batches can have."""
    properties = {}
    for pair in text.split(_PAIR_END):
        name, separator, value = pair.partition(_NAME_END)
        if separator:
            properties[name] = value
    return properties


def split_keys(text: str | None) -> list[str]:
    """Return the business keys in KEYS, as brokers index them (IndexService.buildIndex)."""
    return [key for key in (text or "").split(_KEY_END) if key]


def encode_properties(properties: Mapping[str, str]) -> str:
    """Return the pairs as one text, terminated as by RocketMQ 5.x. Raises ValueError for a separator in a pair."""
    text = "".join([f"{name}{_NAME_END}{value}{_PAIR_END}" for name, value in properties.items()])
    count = len(properties)
    if "" in properties or text.count(_NAME_END) > count or text.count(_PAIR_END) > count:
        for name, value in properties.items():
            if not name or any(mark in name + value for mark in (_NAME_END, _PAIR_END)):
                raise ValueError(f"property {name!r} cannot be sent: its name is empty, or it contains a separator")
    return text
