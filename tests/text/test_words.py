from __future__ import annotations

import pytest

from rmqctl.text.words import agreeing, counted


@pytest.mark.parametrize(
    ("count", "verb", "expected"),
    [
        (1, None, "1 dead letter"),
        (0, None, "0 dead letters"),
        (2, None, "2 dead letters"),
        (1, "is", "1 dead letter is"),
        (2, "is", "2 dead letters are"),
        (0, "was", "0 dead letters were"),
    ],
)
def test_one_thing_has_no_plural(count: int, verb: str | None, expected: str) -> None:
    assert counted(count, "dead letter", verb) == expected


def test_verbs_go_with_their_number() -> None:
    assert [agreeing(count, verb) for verb in ("has", "does") for count in (1, 2)] == ["has", "have", "does", "do"]
