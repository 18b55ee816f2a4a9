"""The shipped JSON Schemas, and the command that prints them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

import rmqctl.cli
import rmqctl.watch
from rmqctl.cli.output.schemas import document_schema, item_schema, kinds
from rmqctl.model.group import GroupState
from rmqctl.model.plan import Operation, Route
from rmqctl.model.progress import PulledSource, TimeLagSource, Unknown
from rmqctl.model.receipt import Result
from rmqctl.model.send_result import SendStatus
from rmqctl.model.topic import TopicFinding, TopicKind
from rmqctl.model.trace import TraceEvent
from rmqctl.rules.dead_letters import DeadLetterReason
from tests.schemas import check_document, check_item

from .calls import call

Captured = pytest.CaptureFixture[str]
_PRINTED = re.compile(r'Listing\(\s*kind="(\w+)"|Stream\("(\w+)"|"apiVersion": "rmqctl/v1",\s*"kind": "(\w+)"')

# Keys that only some documents of a kind have, and say so; everywhere else all keys are always there.
_OPTIONAL = {
    "Broker item": {"config", "runtime"},
    "Doctor item/measured": {
        "versions",
        "kind",
        "version",
        "rttMs",
        "refusedCodes",
        "protocol",
        "certificateExpiresAt",
        "certificateExpiresAtIso",
        "verify",
        "skewLowMs",
        "skewHighMs",
        "lateLevels",
        "timersOverdueMs",
        "openCount",
        "mostCount",
        "givenUpCount",
    },
    "DeadLetterList item": {"bodyBase64"},
    "MessageList": {"group", "topic", "isComplete", "readCount", "timesInOrder", "queues"},
    "MessageList item": {"position", "bodyBase64", "waits", "transaction", "consumedBy"},
    "TopicList item": {
        "messageCount",
        "messageCountAtLeast",
        "topicPutTps",
        "lastUpdateTimestamp",
        "lastUpdateTimestampIso",
    },
}
every_kind = pytest.mark.parametrize("kind", kinds())


def _schemas(kind: str) -> list[dict[str, Any]]:
    item = item_schema(kind)
    return [document_schema(kind), *([] if item is None else [item])]


def _parts(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every part of a schema that is one, with its place."""
    if isinstance(value, dict):
        yield path, value
        for key, part in value.items():
            yield from _parts(part, f"{path}/{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _parts(part, f"{path}/{index}")


def _objects(kind: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        (path, part)
        for schema in _schemas(kind)
        for path, part in _parts(schema)
        if isinstance(part.get("properties"), dict) and "type" in part
    ]


def _printed_kinds() -> set[str]:
    folders = [Path(rmqctl.cli.__file__).parent, Path(rmqctl.watch.__file__).parent]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    found = [match for path in paths for match in _PRINTED.findall(path.read_text())]
    return {kind for groups in found for kind in groups if kind}


def test_every_kind_that_is_printed_has_a_schema_and_every_schema_a_kind() -> None:
    assert set(kinds()) == _printed_kinds()


@every_kind
def test_a_schema_is_valid_and_holds_all_that_it_refers_to(kind: str) -> None:
    for schema in _schemas(kind):
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        names = [part["$ref"] for _, part in _parts(schema) if isinstance(part.get("$ref"), str)]
        for name in names:
            assert name.startswith("#/$defs/"), name
            assert name.removeprefix("#/$defs/") in schema["$defs"], name
        assert "urn:rmqctl:v1:common" not in json.dumps(schema)


def test_ids_are_each_schemas_own() -> None:
    ids = [schema["$id"] for kind in kinds() for schema in _schemas(kind)]
    assert len(set(ids)) == len(ids)
    assert all(name.startswith("urn:rmqctl:v1:") for name in ids)


@every_kind
def test_every_property_says_what_it_means(kind: str) -> None:
    for schema in _schemas(kind):
        for path, part in _parts(schema):
            if not isinstance(part.get("properties"), dict) or path.endswith("/properties"):
                continue
            for name, prop in part["properties"].items():
                meant = schema["$defs"][prop["$ref"].removeprefix("#/$defs/")] if "$ref" in prop else prop
                text = prop.get("description", meant.get("description", ""))
                assert text.endswith("."), (kind, path, name)


@every_kind
def test_nothing_else_is_allowed_and_nothing_may_be_missing(kind: str) -> None:
    for path, part in _objects(kind):
        assert part["additionalProperties"] is False, (kind, path)
        is_item = path.startswith("/$defs/item") or part["properties"].get("kind", {}).get("const") != kind
        where = f"{kind} item" if is_item and path in ("", "/$defs/item") else kind if path == "" else ""
        if path.endswith("/measured"):
            where = f"{kind} item/measured"
        assert set(part["properties"]) - set(part["required"]) == _OPTIONAL.get(where, set()), (kind, path)
        assert set(part["required"]) <= set(part["properties"])


@every_kind
def test_a_document_has_its_version_kind_items_and_errors(kind: str) -> None:
    schema = document_schema(kind)
    assert schema["properties"]["kind"]["const"] == kind
    assert {"apiVersion", "kind"} <= set(schema["required"])
    if kind not in ("Error", "AlertList"):
        assert {"items", "errors"} <= set(schema["required"])
        assert "With --columns" in schema["description"]
        assert item_schema(kind) is not None


def _enums(kind: str) -> list[set[str]]:
    return [
        set(map(str, part["enum"])) for _, part in _parts(document_schema(kind)) if isinstance(part.get("enum"), list)
    ]


@pytest.mark.parametrize(
    ("kind", "values", "more"),
    [
        ("OffsetList", Unknown, set()),
        ("OffsetList", PulledSource, {"None"}),
        ("OffsetList", TimeLagSource, {"None"}),
        ("OffsetList", GroupState, set()),
        ("GroupList", Unknown, {"NOT_ASKED", "NOT_LITE"}),
        ("DeadLetterList", DeadLetterReason, {"None"}),
        ("GroupDetails", Unknown, {"BROKERS_DIFFER"}),
        ("TopicList", TopicKind, set()),
        ("TopicList", TopicFinding, set()),
        ("TopicRoute", TopicFinding, set()),
        ("TopicStatus", TopicFinding, set()),
        ("MessageTrace", TraceEvent, set()),
        ("MessageSent", SendStatus, {"None"}),
        *((kind, words, set()) for kind in ("Plan", "Receipt", "ChangeList") for words in (Operation, Route)),
        ("Plan", GroupState, set()),
        ("Receipt", Result, set()),
    ],
)
def test_closed_lists_of_words_are_those_of_the_code(kind: str, values: type[StrEnum], more: set[str]) -> None:
    assert {*map(str, values), *more} in _enums(kind)


_DOCUMENT: dict[str, Any] = {
    "apiVersion": "rmqctl/v1",
    "kind": "CodeList",
    "items": [{"code": 206, "name": "X", "role": "response", "meaning": "m", "advice": None}],
    "errors": [],
}


def test_strictness() -> None:
    check_document(_DOCUMENT)
    check_item("CodeList", _DOCUMENT["items"][0])
    item = _DOCUMENT["items"][0]
    for wrong in (
        {**_DOCUMENT, "apiVersion": "rmqctl/v2"},
        {**_DOCUMENT, "more": 1},
        {key: value for key, value in _DOCUMENT.items() if key != "errors"},
        {**_DOCUMENT, "items": [{**item, "code": None}]},
        {**_DOCUMENT, "items": [{**item, "code": "206"}]},
        {**_DOCUMENT, "items": [{**item, "role": "other"}]},
        {**_DOCUMENT, "items": [{**item, "more": 1}]},
        {**_DOCUMENT, "items": [{key: value for key, value in item.items() if key != "advice"}]},
        {**_DOCUMENT, "errors": [{"name": "X"}]},
    ):
        with pytest.raises(ValidationError):
            check_document(wrong)
    with pytest.raises(ValidationError):
        check_item("CodeList", {"code": 206})


# The command


@every_kind
def test_the_command_prints_the_schema_of_a_kind(kind: str, capsys: Captured) -> None:
    result = call(capsys, "schema", kind)
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == document_schema(kind)
    assert json.loads(call(capsys, "schema", kind.lower()).out) == document_schema(kind)
    result = call(capsys, "schema", kind, "--item")
    if kind == "Error":
        assert (result.code, result.err.splitlines()[0]) == (2, "rmqctl: Error has no items.")
    else:
        assert json.loads(result.out) == item_schema(kind)


def test_without_a_kind_all_are_listed_with_a_line_each(capsys: Captured) -> None:
    result = call(capsys, "schema")
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines()] == ["KIND", *kinds()]
    assert call(capsys, "schema", "-o", "name").out.split() == kinds()
    document = json.loads(call(capsys, "schema", "-o", "json").out)
    check_document(document)
    assert document["kind"] == "SchemaList"


def test_a_kind_that_there_is_not_gets_a_suggestion(capsys: Captured) -> None:
    result = call(capsys, "schema", "OfsetList")
    assert (result.code, result.out) == (5, "")
    sentence, hint = result.err.splitlines()
    assert sentence == "rmqctl: Kind OfsetList does not exist."
    assert hint.startswith("        Did you mean OffsetList")
    assert call(capsys, "schema", "common").code == 5
    assert call(capsys, "schema", "../errors").code == 5


def test_item_without_a_kind_is_a_mistake(capsys: Captured) -> None:
    result = call(capsys, "schema", "--item")
    assert (result.code, result.err.splitlines()[0]) == (2, "rmqctl: --item requires a KIND.")


def test_the_help_says_what_columns_do_to_it(capsys: Captured) -> None:
    assert "With --columns, an item has only the chosen keys" in " ".join(call(capsys, "schema", "--help").out.split())


def test_an_error_is_as_its_schema_says(capsys: Captured) -> None:
    for argv in (["explain", "zzz"], ["group", "list", "-n", ""], ["zzz"], ["schema", "zzz"]):
        error = call(capsys, *argv, "-o", "json").error
        assert error["kind"] == "Error"
        check_document(error)
