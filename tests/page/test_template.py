from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from rmqctl.page.template import render_template
from rmqctl.pipeline.packaging import write_package


def test_text_is_cleaned_and_escaped_and_markup_is_not() -> None:
    text = render_template("pipeline/report.html", {"body": "<b>"}, str.upper)
    assert "&lt;B&gt;" in text
    assert "<b>" in render_template("pipeline/report.html", {"body": Markup("<b>")}, str.upper)


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render_template("pipeline/report.html", {})


def test_templates_are_found_in_an_archive(tmp_path: Path) -> None:
    archive, _ = write_package(tmp_path)
    code = "from rmqctl.page.template import render_template as r; print(r('pipeline/report.html', {'body': 'here'}))"
    environment = {"PYTHONPATH": str(archive), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, rmqctl; assert 'rmqctl.zip' in rmqctl.__file__; {code}"],
        capture_output=True, text=True, timeout=120, check=False, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "here" in done.stdout
