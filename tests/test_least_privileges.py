"""The manual has the table of rights that the real tests try."""

from __future__ import annotations

from pathlib import Path

from tests.real.least_privileges import table


def test_the_manual_has_the_rights_that_are_tried() -> None:
    page = Path(__file__).parent.parent / "docs" / "configuration.md"
    assert "\n".join(table()) in page.read_text(encoding="utf-8"), "python -m tests.real.least_privileges prints it"
