"""What is said about each code: rmqctl/cli/explain/*.toml."""

from __future__ import annotations

import re

import pytest

from rmqctl.cli.explain.run import read_notes
from rmqctl.protocol.codes import RequestCode, ResponseCode, request_code_name, response_code_name

RESPONSE_NOTES, REQUEST_NOTES = read_notes("response"), read_notes("request")

NO_HANDLER = {13, 22, 23, 27, 47, 209, 210, 211, 212, 213, 214}

COMMANDS = {"rmqctl offset show GROUP", "rmqctl group list", "rmqctl cluster list", "rmqctl explain CODE"}


def sentence_count(text: str) -> int:
    return len(re.findall(r"[.?!](?= |$)", text))


def test_every_response_has_a_note() -> None:
    assert list(RESPONSE_NOTES) == [code.name for code in ResponseCode]


def test_every_request_has_a_note() -> None:
    assert list(REQUEST_NOTES) == [code.name for code in RequestCode]


@pytest.mark.parametrize("code", ResponseCode, ids=response_code_name)
def test_a_response_note_is_short_and_whole(code: ResponseCode) -> None:
    note = RESPONSE_NOTES[code.name]
    assert sentence_count(note["meaning"]) in (1, 2, 3)
    for text in (note["meaning"], note["advice"]):
        assert text[0].isupper() or text.startswith("5.x: ")
        assert text.endswith(".")
        assert "  " not in text


@pytest.mark.parametrize("code", RequestCode, ids=request_code_name)
def test_a_request_note_is_one_sentence(code: RequestCode) -> None:
    note = REQUEST_NOTES[code.name]
    assert sentence_count(note) == 1
    assert note[0].isupper()
    assert note.endswith(".")
    assert "  " not in note


def test_requests_without_a_handler_say_so() -> None:
    dead = "Not answered by any RocketMQ release since 4.9"
    assert {RequestCode[name] for name, note in REQUEST_NOTES.items() if note.startswith(dead)} == NO_HANDLER


@pytest.mark.parametrize(
    ("code", "warning"),
    [
        (15, "writes nothing while a server-side reset"),
        (36, "loses the message"),
        (41, "locks a free queue"),
        (308, "first deletes all stored offsets"),
        (314, "does nothing and answers success"),
        (352, "creates the group"),
        (353, "clears the group's whole forbidden table"),
    ],
)
def test_side_effects_are_named(code: int, warning: str) -> None:
    assert warning in REQUEST_NOTES[RequestCode(code).name]


@pytest.mark.parametrize(
    ("code", "name_in_4_9"),
    [
        (209, "UPDATE_AND_CREATE_ACL_CONFIG_FAILED"),
        (210, "DELETE_ACL_CONFIG_FAILED"),
        (211, "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED"),
    ],
)
def test_codes_that_4_9_uses_otherwise_say_so(code: int, name_in_4_9: str) -> None:
    assert f"4.9: {name_in_4_9}" in RESPONSE_NOTES[ResponseCode(code).name]["meaning"]


def test_notes_name_only_commands_that_exist() -> None:
    notes = [*REQUEST_NOTES.values(), *(f"{note['meaning']} {note['advice']}" for note in RESPONSE_NOTES.values())]
    named = {command for note in notes for command in re.findall(r"`([^`]*)`", note)}
    assert named <= COMMANDS
