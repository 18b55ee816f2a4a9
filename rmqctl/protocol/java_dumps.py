"""Write the JSON that RocketMQ's Java peers read with fastjson, also where they would refuse strict JSON.

Maps keyed by MessageQueue have raw objects as keys (5.4.0 refuses quoted ones); maps keyed by numbers have bare
numbers. As in fastjson, keys are sorted and None is omitted, so that answers compare with recorded ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rmqctl.model.queue import MessageQueue


def dumps(value: Any) -> bytes:
    """Return the body for a value of dicts, lists, tuples, sets, texts, numbers, booleans and MessageQueues.

    Half a surrogate pair becomes a question mark, as in Java. Otherwise one such client id would hide all other
    members of a group's list.
    """
    return _text(value).encode(errors="replace")


def _text(value: Any) -> str:
    # A MessageQueue is also a tuple, so it is checked first.
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
