"""Which dead letters died again after a replay."""

from __future__ import annotations

from itertools import permutations

import pytest

from rmqctl.changes.dlq.rules.replay_chains import ReplayChains

# A dead letter: its message id, its position, and the position that its mark names.
_Letter = tuple[str, str, str | None]


def _mark(named: str | None) -> str:
    return "" if named is None else f"ledger {named}"


def _chains(letters: list[_Letter]) -> ReplayChains:
    chains = ReplayChains()
    for message_id, position, named in letters:
        if named is not None:
            chains.add_marked(message_id, position, _mark(named))
    chains.link()
    for message_id, position, named in letters:
        chains.add_delivery(message_id, position, _mark(named))
    chains.settle()
    return chains


@pytest.mark.parametrize(
    ("letters", "replaced"),
    [
        ([("U", "a:0:0", None)], []),
        ([("U", "a:0:0", None), ("U", "a:0:1", "a:0:0")], ["a:0:0"]),
        ([("U", "a:0:0", None), ("U", "b:1:5", "a:0:0"), ("U", "a:0:9", "b:1:5")], ["a:0:0", "b:1:5"]),
        # Another message, a dead letter that is gone, and a message whose mark is not one of rmqctl.
        ([("U", "a:0:0", None), ("V", "a:0:1", "a:0:0")], []),
        ([("U", "a:0:3", None), ("U", "a:0:4", "a:0:0")], []),
        ([("U", "a:0:3", None), ("U", "a:0:4", "")], []),
    ],
)  # fmt: skip
def test_only_the_last_of_a_chain_remains_in_any_order(letters: list[_Letter], replaced: list[str]) -> None:
    for ordered in permutations(letters):
        chains = _chains(list(ordered))
        found = sorted(position for message_id, position, _ in letters if chains.is_replaced(message_id, position))
        assert found == replaced, ordered


@pytest.mark.parametrize(
    ("letters", "ends"),
    [
        # Replays of one dead letter by two ledgers, and a chain that forks later.
        ([("U", "a:0:0", None), ("U", "a:0:1", "a:0:0"), ("U", "b:0:1", "a:0:0")], ["a:0:1", "b:0:1"]),
        (
            [("U", "a:0:1", "a:0:0"), ("U", "a:0:2", "a:0:1"), ("U", "b:0:3", "a:0:1"), ("U", "c:0:4", "a:0:0")],
            ["a:0:2", "b:0:3", "c:0:4"],
        ),
        # The dead letters between were deleted, or the broker stored the first one twice.
        ([("U", "a:0:5", "a:0:3"), ("U", "a:0:6", "a:0:4")], ["a:0:5", "a:0:6"]),
        # A cycle with an end beside it.
        ([("U", "a:0:5", "b:0:3"), ("U", "b:0:3", "a:0:5"), ("U", "a:0:6", "b:0:3")], ["a:0:6"]),
    ],
)  # fmt: skip
def test_of_several_ends_of_a_message_the_one_read_last_remains(letters: list[_Letter], ends: list[str]) -> None:
    for ordered in permutations(letters):
        chains = ReplayChains()
        for number, (message_id, position, named) in enumerate(ordered):
            if named is not None:
                chains.add_marked(message_id, position, f"ledger{number} {named}")
        chains.link()
        left = [position for message_id, position, _ in ordered if not chains.is_replaced(message_id, position)]
        assert left == [position for _, position, _ in ordered if position in ends][-1:], ordered


# Marks "own" are those of the ledger whose replay is planned.
@pytest.mark.parametrize(
    ("marked", "sent", "in_doubt", "outcomes"),
    [
        # Its copy did not die: what the other ledger's copies left is the same message, however late.
        ({"a:0:1": "other a:0:0"}, ["a:0:0"], [], {"a:0:1": "settled"}),
        ({"a:0:1": "other a:0:0", "a:0:2": "other a:0:1"}, ["a:0:0"], [], {"a:0:1": "replaced", "a:0:2": "settled"}),
        ({"a:0:1": "other a:0:0", "a:0:2": "third a:0:0"}, ["a:0:0"], [], {"a:0:1": "settled", "a:0:2": "settled"}),
        # Its copy died, too, or died since.
        ({"a:0:1": "own a:0:0", "a:0:2": "other a:0:0"}, ["a:0:0"], [], {"a:0:1": "replaced", "a:0:2": "sent"}),
        ({"a:0:1": "own a:0:0", "a:0:2": "other a:0:1"}, ["a:0:0"], [], {"a:0:1": "replaced", "a:0:2": "sent"}),
        # It sent nothing of the message.
        ({"a:0:1": "other a:0:0"}, [], [], {"a:0:1": "sent"}),
        ({"a:0:1": "other a:0:0"}, ["a:0:7"], [], {"a:0:1": "sent"}),
        # One of two ends is its own work already: no other one may be sent beside it.
        ({"a:0:1": "other a:0:0", "a:0:2": "third a:0:0"}, ["a:0:1"], [], {"a:0:1": "sent", "a:0:2": "replaced"}),
        ({"a:0:1": "other a:0:0", "a:0:2": "third a:0:0"}, [], ["a:0:1"], {"a:0:1": "sent", "a:0:2": "replaced"}),
        # A cycle of the marks of others.
        ({"a:0:1": "other a:0:2", "a:0:2": "other a:0:1"}, ["a:0:0"], [], {"a:0:1": "replaced", "a:0:2": "sent"}),
    ],
)  # fmt: skip
def test_a_ledger_knows_what_it_sent_of_a_message(
    marked: dict[str, str], sent: list[str], in_doubt: list[str], outcomes: dict[str, str]
) -> None:
    chains = ReplayChains("own")
    for position, mark in marked.items():
        chains.add_marked("U", position, mark)
    for position in sent:
        chains.add_sent("U", position)
    for position in in_doubt:
        chains.add_sent("U", position, is_in_doubt=True)
    chains.link()
    for position, mark in marked.items():
        chains.add_delivery("U", position, mark)
    chains.settle()
    for position, mark in marked.items():
        is_settled = chains.is_settled("U", mark)
        found = "replaced" if chains.is_replaced("U", position) else "settled" if is_settled else "sent"
        assert found == outcomes[position], position


def test_only_a_mark_proves_that_a_dead_letter_was_sent() -> None:
    chains = ReplayChains()
    for position, mark in (("a:0:1", "one a:0:0"), ("a:0:2", "two a:0:0")):
        chains.add_marked("U", position, mark)
    chains.link()
    assert [chains.has_later("U", position) for position in ("a:0:0", "a:0:1", "a:0:2")] == [True, False, False]


def test_other_dead_letters_of_a_replaced_delivery_are_settled() -> None:
    """The broker stored the first delivery twice, and the second one, too; a later one is of neither."""
    letters = [
        ("U", "a:0:0", None), ("U", "a:0:1", None), ("U", "b:0:0", "a:0:1"), ("U", "b:0:1", "a:0:1"),
        ("U", "a:0:2", "b:0:0"),
    ]  # fmt: skip
    for ordered in permutations(letters):
        chains = _chains(list(ordered))
        marks = [_mark(named) for _, _, named in letters]
        assert [chains.is_settled("U", mark) for mark in marks] == [True, True, True, True, False]
        assert not chains.is_settled("V", "")


@pytest.mark.parametrize(
    "letters",
    [
        [("U", "a:0:0", "a:0:0")],
        [("U", "a:0:5", "b:0:3"), ("U", "b:0:3", "a:0:5")],
        [("U", "a:0:5", "b:0:3"), ("U", "b:0:3", "c:0:1"), ("U", "c:0:1", "a:0:5")],
    ],
)
def test_marks_from_before_a_topic_was_created_again_lose_nothing(letters: list[_Letter]) -> None:
    for ordered in permutations(letters):
        chains = _chains(list(ordered))
        remaining = [position for message_id, position, _ in ordered if not chains.is_replaced(message_id, position)]
        assert remaining == [ordered[-1][1]]
