"""Reads the JSON that RocketMQ's servers write with fastjson, which is not always JSON.

Three habits need help (wire facts: fastjson 1.x up to RocketMQ 5.3, fastjson2 in 5.4): maps keyed by objects
(`{{"brokerName":"b","queueId":0,"topic":"T"}:4}`), bare numeric keys (`{0:4}`), and references to an object that was
written before (`{"$ref":"$.a"}`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from rmqctl.errors import RemoteProtocolError


class ObjectMap(list[tuple[Any, Any]]):
    """A Java map keyed by objects: (key, value) pairs in the order written. items() is there as on a dict."""

    def items(self) -> ObjectMap:
        """Return the pairs, so that an empty map, which reads as a dict, can be walked the same way."""
        return self


def loads(data: bytes) -> Any:
    """Return the value written in `data` (UTF-8). Numeric keys become text; a map keyed by objects an ObjectMap.

    Raises RemoteProtocolError when it is no such JSON.
    """
    try:
        text = data.decode()
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError:
            value = _loads_dialect(text)
        return _resolve_references(value) if '"$ref"' in text else value
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"The peer sent a body that is not RocketMQ's JSON ({error}).") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


_STRING = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_NUMERIC_KEY = re.compile(r"([{,]\s*)(-?\d+)(\s*:)")
# With all strings taken out: an object that holds no other object and stands before a colon is a key.
_OBJECT_KEY = re.compile(r"\{[^{}]*\}(?=\s*:)")
# Stands for a string while the structure is rewritten; legal JSON cannot hold it outside of a string.
_HOLE = "\x00"
# Starts a text key that stands for the n-th object key; a real text key can't hold it unescaped.
_KEY_MARK = "\x01"


def _loads_dialect(text: str) -> Any:
    """Rewrite the dialect into strict JSON, then let the C parser read it."""
    if _HOLE in text or _KEY_MARK in text:
        raise ValueError("a control character outside of an escape")
    pieces = _STRING.split(text)
    strings = iter(pieces[1::2])
    structure = _HOLE.join(pieces[0::2])
    if '"' in structure:
        raise ValueError("a string without an end")
    structure = _NUMERIC_KEY.sub(r'\1"\2"\3', structure)

    # Object keys are cut out into a list of their own. Their strings stand among the others, so the text is walked in
    # order once: outside parts take their strings from the stream, and so do the keys.
    outside: list[str] = []
    keys: list[str] = []
    at = 0
    for match in _OBJECT_KEY.finditer(structure):
        outside.append(_fill(structure[at : match.start()], strings))
        outside.append(f'"\\u0001{len(keys)}"')
        keys.append(_fill(match.group(), strings))
        at = match.end()
    outside.append(_fill(structure[at:], strings))
    strict = "".join(outside)
    if not keys:
        return json.loads(strict, parse_constant=_refuse_constant)
    key_values = json.loads(f"[{','.join(keys)}]", parse_constant=_refuse_constant)
    return json.loads(strict, parse_constant=_refuse_constant, object_pairs_hook=_object_map_hook(key_values))


def _fill(structure: str, strings: Any) -> str:
    if _HOLE not in structure:
        return structure
    first, *rest = structure.split(_HOLE)
    return first + "".join([next(strings) + part for part in rest])


def _object_map_hook(key_values: list[Any]) -> Callable[[list[tuple[str, Any]]], Any]:
    def hook(pairs: list[tuple[str, Any]]) -> Any:
        if pairs and pairs[0][0].startswith(_KEY_MARK):
            # A map has keys of one kind; one that mixes them was not written by RocketMQ.
            return ObjectMap([(key_values[int(key[1:])], value) for key, value in pairs if key[:1] == _KEY_MARK])
        return dict(pairs)

    return hook


_PATH_STEP = re.compile(r"\.((?:\\.|[^.\[\]\\])+)|\[(\d+)\]")


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, ObjectMap):
        return value[name]
    # The only objects that RocketMQ uses as keys; fastjson names them by their toString().
    for key, item in value:
        if f"MessageQueue [topic={key['topic']}, brokerName={key['brokerName']}, queueId={key['queueId']}]" == name:
            return item
    raise KeyError(name)


def _resolve_references(root: Any) -> Any:
    """Put the object in place of each {"$ref": path}: `$` root, `@` this object, `..` its parent, `$.a.b[0]` a path."""

    def target(path: str, parents: list[Any]) -> Any:
        if path == "$":
            return root
        if path == "@":
            return parents[-1]
        if path == "..":
            return parents[-2] if len(parents) > 1 else root
        value = root
        at = 1
        if not path.startswith("$"):
            raise ValueError(f"a reference to {path}")
        while at < len(path):
            step = _PATH_STEP.match(path, at)
            if step is None:
                raise ValueError(f"a reference to {path}")
            try:
                if step.group(1) is not None:
                    # fastjson escapes what is special in its paths, such as the percent signs of %RETRY%.
                    value = _member(value, re.sub(r"\\(.)", r"\1", step.group(1)))
                else:
                    value = value[int(step.group(2))]
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"a reference to {path}, which is not there") from None
            at = step.end()
        return value

    def resolved(value: Any, parents: list[Any]) -> Any:
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$ref"), str):
            found = target(value["$ref"], parents)
            return found if found is not value else None
        return value

    def walk(value: Any, parents: list[Any]) -> None:
        inner = [*parents, value]
        if isinstance(value, dict):
            for key, item in value.items():
                value[key] = resolved(item, inner)
                if value[key] is item:
                    walk(item, inner)
        elif isinstance(value, ObjectMap):
            for index, (key, item) in enumerate(value):
                value[index] = (resolved(key, inner), resolved(item, inner))
                if value[index][1] is item:
                    walk(item, inner)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                value[index] = resolved(item, inner)
                if value[index] is item:
                    walk(item, inner)

    walk(root, [])
    return root
