"""Holds what rmqctl prints against the schemas that it ships."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from rmqctl.cli.output.schemas import document_schema, item_schema


@cache
def _document_validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(document_schema(kind), format_checker=Draft202012Validator.FORMAT_CHECKER)


@cache
def _item_validator(kind: str) -> Draft202012Validator:
    schema = item_schema(kind)
    assert schema is not None
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def check_document(document: Any) -> None:
    """Fail unless a document is as its kind's schema says."""
    _document_validator(document["kind"]).validate(document)


def check_item(kind: str, item: Any) -> None:
    """Fail unless a line of -o jsonl is as its kind's schema says."""
    _item_validator(kind).validate(item)


def is_whole_document(argv: Sequence[str]) -> bool:
    """Tell from a command line whether it prints one document with all keys."""
    joined = f" {' '.join(argv)} "
    return (" -o json " in joined or " -ojson " in joined or " --output json " in joined) and "--columns" not in joined
