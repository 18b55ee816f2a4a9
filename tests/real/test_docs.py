"""The examples of README.md and docs/ come from a real cluster and still match it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import normalised, page_id, pages

from .docs_stage import play, scenes


@pytest.mark.parametrize("page", [page for page in pages() if scenes(page.read_text())], ids=page_id)
def test_examples_match_a_real_cluster(page: Path) -> None:
    for part, _, output in play(page.read_text()):
        assert normalised(output) == normalised(part.output), (
            f"{page_id(page)} shows something else for: {part.text} (make examples P={page_id(page)} writes it again)"
        )


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        ("lag 90  36m15s", "lag 90 2s", True),
        ("lag 90", "lag 91", False),
        ("broker-a 127.0.0.1:10911 0.0 14%", "broker-a  127.0.0.1:4711  12.5  3%", True),
        ("192.0.2.2@4859#1459148543786 T", "10.0.0.1@7#9 T", True),
        ("192.0.2.2@4859#1459148543786 2/2 0 6.65 averagely", "10.0.0.1@7#9  2/2 14  0  averagely", True),
        ("192.0.2.2@4859#1459148543786 2/2 0 6.6 averagely", "10.0.0.1@7#9  2/2 14  0  averagely", True),
        ("192.0.2.2@4859#1459148543786 2/2 0 circle", "10.0.0.1@7#9  2/2 14  averagely", False),
    ],
)
def test_only_what_must_differ_may_differ(one: str, other: str, are_alike: bool) -> None:
    assert (normalised(one) == normalised(other)) is are_alike
