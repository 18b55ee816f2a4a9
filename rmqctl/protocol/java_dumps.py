"""Writes the JSON that RocketMQ's Java peers read with fastjson, where strict JSON would be refused.

Maps keyed by MessageQueue have raw objects as keys (5.4.0 refuses a quoted one), maps keyed by numbers bare numbers.
Keys are sorted and None is left out, as fastjson does, so that answers compare with recorded ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rmqctl.model.queue import MessageQueue


def dumps(value: Any) -> bytes:
    """Return the body for a value of dicts, lists, tuples, sets, texts, numbers, booleans and MessageQueues.

    Half a surrogate pair becomes a question mark, as in Java; in a group's list of members it would hide all others.
    """
    return _text(value).encode(errors="replace")


def _text(value: Any) -> str:
    # A MessageQueue is a tuple as well, so it goes first.
    if isinstance(value, MessageQueue):
        name, broker = _leaf(value.topic), _leaf(value.broker_name)
        return f'{{"brokerName":{broker},"queueId":{value.queue_id},"topic":{name}}}'
    if isinstance(value, Mapping):
        return "{" + ",".join(_pairs(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, set | frozenset):
        return "[" + ",".join(map(_text, sorted(value))) + "]"
    return _leaf(value)


def _pairs(mapping: Mapping[Any, Any]) -> list[str]:
    return [f"{_key(key)}:{_text(mapping[key])}" for key in sorted(mapping) if mapping[key] is not None]


def _key(key: Any) -> str:
    return str(key) if type(key) is int else _text(key)


def _leaf(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
