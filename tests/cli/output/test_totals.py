"""One rule decides what a sum of a part is, and one shows it."""

from __future__ import annotations

import pytest

from rmqctl.cli.output.totals import show_total, total_items, total_reasons, total_words
from rmqctl.rules.totals import Total, total

CASES = {
    # Parts, why there may be more, why nothing is not known; the sum, its cell and its words.
    "whole": ([(3, ""), (4, "")], None, None, Total(7, 7, None), "7", "7 queues"),
    "one": ([(1, "")], None, None, Total(1, 1, None), "1", "1 queue"),
    "a part is unknown": ([(3, ""), (None, "X")], None, None, Total(None, 3, "X"), ">=3", "at least 3 queues"),
    "the commonest reason": ([(3, ""), (None, "X"), (None, "Y"), (None, "Y")], None, None, Total(None, 3, "Y"), ">=3",
                             "at least 3 queues"),
    "some are hidden": ([(1, "")], "H", None, Total(None, 1, "H"), ">=1", "at least 1 queue"),
    "hidden counts more": ([(3, ""), (None, "X")], "H", None, Total(None, 3, "H"), ">=3", "at least 3 queues"),
    "nothing known": ([(None, "X")], None, None, Total(None, 0, "X"), "-", "an unknown number of queues"),
    "nothing at all": ([], None, None, Total(0, 0, None), "0", "0 queues"),
    "nothing means unknown": ([], None, "N", Total(None, 0, "N"), "-", "an unknown number of queues"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_sum_is_exact_or_at_least_what_is_known(case: str) -> None:
    parts, hidden, nothing, expected, cell, words = CASES[case]
    found = total(parts, hidden=hidden, nothing=nothing)
    assert found == expected
    item = total_items({"n": found})
    assert item == {"n": expected.value, "nAtLeast": expected.at_least}
    assert total_reasons({"n": found}) == ({} if expected.reason is None else {"n": expected.reason})
    assert (show_total("n")(item), total_words(item, "n", "queue")) == (cell, words)
    assert total_words(item, "n") == {"-": "unknown"}.get(cell, cell.replace(">=", "at least "))
