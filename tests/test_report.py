"""The table at the end of a whole run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report import main

_JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.a.test_a" name="test_quick" time="0.1"/>
<testcase classname="tests.a.test_a" name="test_slow[x]" time="7.25"/>
<testcase classname="tests.a.test_b" name="test_wrong" time="1">
<failure message="assert 1 == 2&#10;more">..</failure></testcase>
<testcase classname="tests.a.test_b" name="test_left" time="0"><skipped message="no zsh"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (_JUNIT, 1, ("4 tests: 2 passed, 1 failed, 1 skipped.", "tests/a/test_b::test_wrong", "assert 1 == 2")),
        (_JUNIT.replace("failure", "error"), 1, ("4 tests: 2 passed, 1 failed, 1 skipped.",)),
        (_JUNIT.replace("failure", "system-out"), 0, ("4 tests: 3 passed, 0 failed, 1 skipped.",)),
        (_JUNIT[:90], 1, ("unit did not finish", "0 tests")),
        (None, 1, ("unit did not finish", "0 tests")),
    ],
)
def test_what_failed_what_was_slow_and_what_is_missing(
    text: str | None, code: int, said: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "unit.xml"
    if text is not None:
        path.write_text(text)
    assert main([str(path)]) == code
    out = capsys.readouterr().out
    assert all(each in out for each in said), out
    if "4 tests" in out:
        assert out.index("test_slow[x]") < out.index("test_quick")
