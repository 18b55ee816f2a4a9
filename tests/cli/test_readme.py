"""README's examples that need no cluster; the others are run in tests/real/test_readme.py."""

from __future__ import annotations

import shlex

import pytest

from rmqctl.cli.app import run
from tests.readme import Example, examples, needs_cluster

OFFLINE = [example for example in examples() if not needs_cluster(example)]


def test_there_are_such_examples() -> None:
    assert OFFLINE


@pytest.mark.parametrize("example", OFFLINE, ids=lambda example: example.command)
def test_an_example_prints_what_readme_says(
    example: Example, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run(shlex.split(example.command)[1:])

    assert capsys.readouterr().out.strip() == example.output
