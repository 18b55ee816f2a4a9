"""The check of the house voice: which phrases it finds, and where it looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.voice.__main__ import findings_in, read_phrases

PHRASES = read_phrases((Path(__file__).parent / "voice/phrases.txt").read_text())


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", '"""It can\'t be read."""\n', ["can't"]),
        ("a.py", 'raise UsageError(f"{text!r} is no offset.")\n', ["is no "]),
        ("a.py", "told = 'none'  # the client goes on\n", []),
        ("a.py", '"""Return it: no value is None, and there is none."""\n', []),
        ("a.md", "The broker tells it.\n```\nThe broker tells it.\n```\nRead `is no x`.\n", ["tells"]),
        (
            "a.json",
            '{"description": "Such as x.", "properties": {"told": {"title": "It is said."}}}',
            ["Such as", "is said"],
        ),
        ("a.toml", "[told]\nx = 'It is said.'\ny = [{ z = 'Such as x.' }]\n", ["is said", "Such as"]),
        ("a.txt", "It is said.\n", []),
    ],
)
def test_a_phrase_is_found_where_people_read_it(tmp_path: Path, name: str, text: str, found: list[str]) -> None:
    (tmp_path / name).write_text(text)
    assert [line.split("'" if '"' not in line else '"')[1] for line in findings_in([tmp_path], PHRASES)] == found
