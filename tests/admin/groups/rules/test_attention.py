from __future__ import annotations

import pytest

from rmqctl.admin.groups.rules.attention import Mark, mark, unchecked_parts
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown

_ONLINE, _EMPTY, _UNKNOWN = GroupState.ONLINE, GroupState.EMPTY, GroupState.UNKNOWN
_DOWN, _PROXY = Unknown.BROKER_UNREACHABLE, Unknown.BEHIND_PROXY
_MEMBERS, _BROKERS = {"MEMBERS": "NOT_ASKED"}, {"BROKERS": "BROKER_UNREACHABLE"}


@pytest.mark.parametrize(
    ("state", "unseen", "untold", "are_letters_asked", "unchecked", "without_findings"),
    [
        (_EMPTY, None, None, True, {}, Mark.FINE),
        (_ONLINE, None, None, True, _MEMBERS, Mark.UNCHECKED),
        (_UNKNOWN, _PROXY, None, True, {"MEMBERS": "BEHIND_PROXY"}, Mark.UNCHECKED),
        (_UNKNOWN, _DOWN, _DOWN, True, {"MEMBERS": "BROKER_UNREACHABLE", **_BROKERS}, Mark.UNCHECKED),
        (_ONLINE, None, _DOWN, True, {**_MEMBERS, **_BROKERS}, Mark.UNCHECKED),
        (_EMPTY, None, _DOWN, True, _BROKERS, Mark.UNCHECKED),
        (_EMPTY, None, None, False, {"DEAD_LETTERS": "NOT_ASKED"}, Mark.UNCHECKED),
    ],
)
def test_a_group_is_fine_only_where_everything_was_looked_at(
    state: GroupState, unseen: Unknown | None, untold: Unknown | None, are_letters_asked: bool,
    unchecked: dict[str, str], without_findings: Mark,
) -> None:  # fmt: skip
    found = unchecked_parts(state, unseen, untold, are_letters_asked=are_letters_asked)
    assert {str(part): reason for part, reason in found.items()} == unchecked
    assert mark([], found) == without_findings
    assert mark(["OFF001"], found) == Mark.ATTENTION
