from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqctl import errors
from rmqctl.errors import (
    BrokerError,
    DeadlineError,
    NotFoundError,
    RemoteProtocolError,
    RmqctlError,
    UnreachableError,
    UsageError,
    shortened,
)


def _tree(root: type[RmqctlError]) -> list[type[RmqctlError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


@pytest.mark.parametrize("error", _tree(RmqctlError))
def test_every_error_is_drawn_in_the_tree_with_its_exit_code(error: type[RmqctlError]) -> None:
    assert re.search(rf"\b{error.__name__} +{error.exit_code}\b", errors.__doc__ or "")


def test_every_name_is_in_the_schema_of_errors_and_in_the_manual() -> None:
    root = Path(errors.__file__).parent
    for text in ((root / "schemas" / "Error.json").read_text(), (root.parent / "docs" / "scripting.md").read_text()):
        for error in _tree(RmqctlError):
            assert re.search(rf"\b{error.name}\b", text), error.name


def test_exit_codes_are_the_agreed_ones() -> None:
    codes = {error.__name__: error.exit_code for error in _tree(RmqctlError)}
    assert codes == {
        "RmqctlError": 1,
        "UsageError": 2,
        "UnmatchedMapError": 2,
        "DeclinedError": 3,
        "NotAuthorisedError": 4,
        "NotFoundError": 5,
        "UnreachableError": 6,
        "NotRegisteredError": 6,
        "NoBrokerError": 6,
        "DeadlineError": 6,
        "CutShortError": 6,
        "NotAskedError": 6,
        "ProtocolError": 1,
        "LocalProtocolError": 1,
        "RemoteProtocolError": 1,
        "BrokerError": 1,
        "NameServersDifferError": 1,
        "DuplicateBrokerError": 1,
        "RefusedError": 1,
        "StaleError": 7,
        "AlreadyRunningError": 1,
        "BusyError": 1,
        "PluginError": 1,
        "UnsupportedError": 1,
        "BugError": 1,
    }


def test_errors_build_their_own_sentence() -> None:
    assert str(UnreachableError("a:1", "connection refused")) == "a:1: connection refused."
    assert str(DeadlineError("a:1", 3.333)) == "a:1: no answer within 3.3 s."
    assert str(NotFoundError("Group", "g")) == "Group g does not exist."
    assert str(BrokerError("a:1", 2, "SYSTEM_BUSY", None)) == "a:1 answered SYSTEM_BUSY (2)"
    assert str(BrokerError("a:1", 2, "SYSTEM_BUSY", " \n ")) == "a:1 answered SYSTEM_BUSY (2)"


def test_a_long_remark_is_cut_in_the_sentence_only() -> None:
    error = BrokerError("a:1", 1, "SYSTEM_ERROR", "x" * 100_000)
    assert error.sentence == f"a:1 answered SYSTEM_ERROR (1): {'x' * 300}..."
    assert error.remark is not None
    assert len(error.remark) == 100_000
    assert shortened("y" * 300) == "y" * 300


def test_suggestions_become_the_hint_unless_there_is_another() -> None:
    assert NotFoundError("Group", "g", suggestions=("a", "b")).hint == "Did you mean a or b?"
    assert NotFoundError("Group", "g", suggestions=("a",), hint="Other.").hint == "Other."
    assert NotFoundError("Group", "g").hint is None


def test_a_reworded_error_is_a_copy_of_the_same_kind_that_leaves_the_first_alone() -> None:
    first = DeadlineError("a:1", 3.0, hint="Wait.")
    copy = first.reworded("Something else.")
    assert type(copy) is DeadlineError
    assert (str(copy), copy.sentence, copy.hint) == ("Something else.", "Something else.", "Wait.")
    assert (copy.address, copy.waited_s, copy.name) == ("a:1", 3.0, "TIMED_OUT")
    assert str(first) == first.sentence == "a:1: no answer within 3.0 s."
    assert first.reworded("x", hint="New.").hint == "New."
    refused = BrokerError("a:1", 2, "SYSTEM_BUSY", "slow").reworded("y")
    assert (refused.name, refused.code, refused.remark) == ("SYSTEM_BUSY", 2, "slow")
    assert RemoteProtocolError("z").reworded("y").sentence == "y"
    assert UsageError("z", hint="h").reworded("y").hint == "h"
