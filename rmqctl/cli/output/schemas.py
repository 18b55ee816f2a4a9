"""JSON Schemas of rmqctl's output: one file per kind in rmqctl/schemas, shared parts in common.json there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

_SHARED = "urn:rmqctl:v1:common#/$defs/"
_HERE = "#/$defs/"
_COMMON = "common"


def kinds() -> list[str]:
    """Return every kind that has a schema, sorted."""
    names = (path.name.removesuffix(".json") for path in _folder().iterdir() if path.name.endswith(".json"))
    return sorted(name for name in names if name != _COMMON)


def document_schema(kind: str) -> dict[str, Any]:
    """Return the self-contained schema of a kind's document."""
    return _whole(_read(kind))


def item_schema(kind: str) -> dict[str, Any] | None:
    """Return the schema of one item of a kind, one line of -o jsonl; None for a kind without items."""
    schema = _read(kind)
    if "item" not in schema.get("$defs", {}):
        return None
    head = {"$schema": schema["$schema"], "$id": f"{schema['$id']}:item", "title": f"{schema['title']}: one item"}
    return _whole({**head, **schema["$defs"]["item"], "$defs": schema["$defs"]})


def _folder() -> Any:
    return files("rmqctl") / "schemas"


def _read(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((_folder() / f"{name}.json").read_text("utf-8"))
    return schema


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with all parts that it refers to, its own and shared ones, and no others."""
    own, shared = schema.pop("$defs", {}), _read(_COMMON)["$defs"]
    parts: dict[str, Any] = {}
    todo = set(_names(schema))
    while todo:
        name = todo.pop()
        parts[name] = own[name] if name in own else shared[name]
        todo |= set(_names(parts[name])) - set(parts)
    whole = {**schema, "$defs": dict(sorted(parts.items()))} if parts else schema
    inside: dict[str, Any] = json.loads(json.dumps(whole).replace(_SHARED, _HERE))
    return inside


def _names(value: Any) -> Iterator[str]:
    """Yield the names of all parts that a piece of a schema refers to."""
    if isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_SHARED).removeprefix(_HERE)
        for part in value.values():
            yield from _names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _names(part)
