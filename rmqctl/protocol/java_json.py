"""Read the JSON that RocketMQ's servers write with fastjson, which is not always valid JSON.

Three deviations are supported (wire facts: fastjson 1.x up to RocketMQ 5.3, fastjson2 in 5.4): maps keyed by objects
(`{{"brokerName":"b","queueId":0,"topic":"T"}:4}`), bare numeric keys (`{0:4}`), and references to an object that was
written before (`{"$ref":"$.a"}`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from rmqctl.errors import RemoteProtocolError


class ObjectMap(list[tuple[Any, Any]]):
    """A Java map keyed by objects: (key, value) pairs in the order written. items() is there as on a dict."""

    def items(self) -> ObjectMap:
        """Return the pairs, so that an empty map, which reads as a dict, can be walked the same way."""
        return self


def loads(data: bytes) -> Any:
    """Return the value written in `data` (UTF-8). Numeric keys become text; a map keyed by objects an ObjectMap.

    Raises RemoteProtocolError when the bytes are not such JSON.
    """
    try:
        text = data.decode()
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError:
            value = _loads_dialect(text)
        return _References(value).resolve() if '"$ref"' in text else value
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"The peer sent a body that is not RocketMQ's JSON ({error}).") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


# Possessive, and with the last quote optional: a text that never ends is then read once, not once for each quote in it.
_STRING = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)', re.DOTALL)
_NUMERIC_KEY = re.compile(r"([{,]\s*)(-?[0-9]+)(\s*:)")
# With all strings removed, an object that contains no other object and precedes a colon is a key.
_OBJECT_KEY = re.compile(r"\{[^{}]*\}(?=\s*:)")
# Replaces a string while the structure is rewritten; legal JSON cannot contain it outside a string.
_HOLE = "\x00"
# One of these starts the text key that replaces the n-th object key: one that no text in the same body starts with.
# JSON has no other spelling for them.
_KEY_MARKS = [f"\\u000{digit}" for digit in range(1, 8)]


def _loads_dialect(text: str) -> Any:
    """Rewrite the dialect into strict JSON, then parse it with the C parser."""
    if _HOLE in text:
        raise ValueError("an unescaped control character")
    mark = next((mark for mark in _KEY_MARKS if f'"{mark}' not in text), None)
    if mark is None:
        raise ValueError("too many texts that start with control characters")
    pieces = _STRING.split(text)
    strings = iter(pieces[1::2])
    structure = _NUMERIC_KEY.sub(r'\1"\2"\3', _HOLE.join(pieces[0::2]))

    # Object keys are cut out into their own list. Their strings are mixed with the others, so the text is walked once,
    # in order: both the parts outside of keys and the keys get their strings from the stream.
    outside: list[str] = []
    keys: list[str] = []
    at = 0
    for match in _OBJECT_KEY.finditer(structure):
        outside.append(_fill(structure[at : match.start()], strings))
        outside.append(f'"{mark}{len(keys)}"')
        keys.append(_fill(match.group(), strings))
        at = match.end()
    outside.append(_fill(structure[at:], strings))
    strict = "".join(outside)
    if not keys:
        return json.loads(strict, parse_constant=_refuse_constant)
    key_values = json.loads(f"[{','.join(keys)}]", parse_constant=_refuse_constant)
    hook = _object_map_hook(chr(int(mark[2:], 16)), key_values)
    return json.loads(strict, parse_constant=_refuse_constant, object_pairs_hook=hook)


def _fill(structure: str, strings: Iterator[str]) -> str:
    if _HOLE not in structure:
        return structure
    first, *rest = structure.split(_HOLE)
    return first + "".join([next(strings) + part for part in rest])


def _object_map_hook(mark: str, key_values: list[Any]) -> Callable[[list[tuple[str, Any]]], Any]:
    def hook(pairs: list[tuple[str, Any]]) -> Any:
        marked_count = sum(key[:1] == mark for key, _ in pairs)
        if marked_count == 0:
            return dict(pairs)
        if marked_count != len(pairs):
            raise ValueError("a map whose keys are partly objects")
        return ObjectMap([(key_values[int(key[1:])], value) for key, value in pairs])

    return hook


_PATH_STEP = re.compile(r"\.((?:\\.|[^.\[\]\\])*)|\[(-?[0-9]+)\]")


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$ref"), str)


class _References:
    """Replaces each {"$ref": path} with its object: `$` root, `@` this object, `..` its parent, `$.a.b[0]` a path.

    Each reference and each map is visited once: references may be many, and form cycles.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._parents: list[Any] = []
        # By the id of a reference: the reference itself, so that its id is not reused, and its target.
        self._found: dict[int, tuple[Any, Any]] = {}
        self._names: dict[int, dict[str, Any]] = {}

    def resolve(self) -> Any:
        self._walk(self._root)
        return self._root

    def _walk(self, value: Any) -> None:
        self._parents.append(value)
        if isinstance(value, ObjectMap):
            value[:] = [(self._resolved(key), self._resolved(item)) for key, item in value]
        elif isinstance(value, list):
            value[:] = [self._resolved(item) for item in value]
        elif isinstance(value, dict):
            value.update([(key, self._resolved(item)) for key, item in value.items()])
        self._parents.pop()

    def _resolved(self, value: Any) -> Any:
        if _is_reference(value):
            return self._follow(value, self._parents)
        if isinstance(value, dict | list):
            self._walk(value)
        return value

    def _follow(self, reference: Any, parents: list[Any]) -> Any:
        """Return the target of a reference, or None for one that leads back to itself."""
        if id(reference) not in self._found:
            self._found[id(reference)] = (reference, None)
            self._found[id(reference)] = (reference, self._target(reference["$ref"], parents))
        return self._found[id(reference)][1]

    def _target(self, path: str, parents: list[Any]) -> Any:
        if path == "@":
            return parents[-1]
        if path == "..":
            return parents[-2] if len(parents) > 1 else self._root
        if not path.startswith("$"):
            raise ValueError(f"a reference to {path!r:.200}")
        value, above, at = self._root, [], 1
        while at < len(path):
            step = _PATH_STEP.match(path, at)
            if step is None:
                raise ValueError(f"a reference to {path!r:.200}")
            above.append(value)
            try:
                value = self._member(value, step)
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"a reference to {path!r:.200}, which does not exist") from None
            if _is_reference(value):
                value = self._follow(value, above)
            at = step.end()
        return value

    def _member(self, value: Any, step: re.Match[str]) -> Any:
        name, index = step.groups()
        if isinstance(value, dict):
            # An Integer key is written like an index. fastjson escapes characters that are special in its
            # paths, for example the percent signs of %RETRY%.
            return value[index if name is None else re.sub(r"\\(.)", r"\1", name)]
        if isinstance(value, ObjectMap):
            return self._names_in(value)[re.sub(r"\\(.)", r"\1", name)]
        if name is None and isinstance(value, list) and not index.startswith("-"):
            return value[int(index)]
        raise TypeError("neither a map nor a list")

    def _names_in(self, pairs: ObjectMap) -> dict[str, Any]:
        """Return a map's values by the toString() of their keys, which fastjson writes into a path."""
        if id(pairs) not in self._names:
            names = self._names[id(pairs)] = {}
            for key, item in pairs:
                target = self._follow(key, [pairs]) if _is_reference(key) else key
                # The only objects that RocketMQ uses as keys.
                if isinstance(target, dict) and {"topic", "brokerName", "queueId"} <= target.keys():
                    topic, broker_name, queue_id = target["topic"], target["brokerName"], target["queueId"]
                    if isinstance(topic, str) and isinstance(broker_name, str) and isinstance(queue_id, int):
                        text = f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"
                        names.setdefault(text, item)
            # A key that is the target of a reference, because it was written before its value, has no name.
            written = [key for key, _ in pairs if not _is_reference(key)]
            if len(written) == 1:
                names.setdefault("null", written[0])
        return self._names[id(pairs)]
