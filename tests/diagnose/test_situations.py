"""The page of all situations is true: every fault is found, and nothing is wrong with the healthy."""

from __future__ import annotations

from .situations import PAGE, STATES, page, situations


def test_every_fault_is_found_and_the_page_says_so() -> None:
    every = list(situations())
    assert [each.what for each in every if set(each.codes) != each.planted] == []
    assert sum(bool(each.planted) for each in every) >= 40
    assert sum(not each.planted for each in every) >= 20
    codes = {code for each in every for code in each.planted} | {"MEM010", "PXY001", "PXY002", "SKW003", "VER002"}
    assert {code for _, found in STATES for code in found.split() if "`" not in found} <= codes
    text = page()
    print(text)
    assert PAGE.read_text(encoding="utf-8") == text, "python -m tests.diagnose.situations updates it"
