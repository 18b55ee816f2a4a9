"""The manual pages are made of what --help shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rmqctl.cli.man_pages import man_pages, write
from rmqctl.cli.registry import COMMANDS

PAGES = man_pages()


def test_every_command_has_a_page_and_the_first_page_names_all() -> None:
    assert set(PAGES) == {"rmqctl.1", *(f"rmqctl-{words.replace(' ', '-')}.1" for words in COMMANDS)}
    for name in PAGES:
        assert name == "rmqctl.1" or name.removesuffix(".1").replace("-", "\\-") in PAGES["rmqctl.1"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_sections_and_no_other_requests_of_roff(name: str) -> None:
    text = PAGES[name]
    assert {".SH NAME", ".SH SYNOPSIS"} <= set(text.splitlines())
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".TP", ".PP", ".nf", ".fi"}
    assert not re.search(r"\\(?![e&fB(-])", text.replace("\\fR", ""))


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_nothing_wrong(tmp_path: Path) -> None:
    write(tmp_path)
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
