from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from rmqctl.page.template import render_template
from rmqctl.pipeline.package import write_package


@pytest.fixture(autouse=True)
def _templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.html").write_text("{{ view.body }}")
    monkeypatch.setattr("rmqctl.page.template.files", lambda _: tmp_path)


def test_text_is_cleaned_and_escaped_and_markup_is_not() -> None:
    assert render_template("own.html", {"body": "<b>"}, str.upper) == "&lt;B&gt;"
    assert render_template("own.html", {"body": Markup("<b>")}, str.upper) == "<b>"


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render_template("own.html", {})


def test_templates_are_found_in_an_archive(tmp_path: Path) -> None:
    archive, _ = write_package(tmp_path)
    facts = dict.fromkeys(("windowEndTimestamp", "sinceTimestamp", "newestSnapshotTimestamp"))
    facts |= {"groupCount": 7, "queueCount": 8, "snapshotCount": 9, "windowMs": 1000, "groupCounts": {}}
    page = f"LagPage({facts}, [], 0, {{}})"
    code = f"from rmqctl.pipeline.report.lag_page import LagPage, render_page; print(render_page({page}))"
    environment = {"PYTHONPATH": str(archive), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, rmqctl; assert 'rmqctl.zip' in rmqctl.__file__; {code}"],
        capture_output=True, text=True, timeout=120, check=False, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "7 groups" in done.stdout
