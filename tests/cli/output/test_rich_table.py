from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.rich_table import rich_table
from rmqctl.cli.registry import COMMANDS

from .hostile import COLUMNS, NAMES, items, listing, raw_in

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def _table(monkeypatch: pytest.MonkeyPatch, made: Listing, width: int, **display: Any) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = Display(**{"with_color": False, **display})
    columns = [column for column in made.columns if not column.is_wide or shown.format == "wide"]
    return rich_table(made.items, columns, shown)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("with_color", [True, False])
def test_nothing_raw_reaches_the_terminal_but_our_own_colours(
    width: int, with_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _table(monkeypatch, listing(), width, with_color=with_color, format="wide")
    assert raw_in(_STYLE.sub("", text)) == set()
    assert bool(_STYLE.search(text)) == with_color


def test_markup_and_emoji_codes_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _table(monkeypatch, listing(), 200, with_color=True)
    assert "[red]markup[/red] :smile:" in text


@pytest.mark.parametrize("width", [20, 80, 200])
def test_numbers_are_whole_at_any_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column("NAME", "name"), *(Column(f"N{index}", f"n{index}", is_number=True) for index in range(5)))
    numbers = {f"n{index}": 2**63 - 1 - index for index in range(5)}
    made = listing(columns=columns, items=[{"name": "a-name-that-is-rather-long" * 3, **numbers}])
    shown = _table(monkeypatch, made, width).split()
    for number in numbers.values():
        assert str(number) in shown


def test_a_table_fits_a_terminal_of_80_when_its_numbers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made = listing(items=[{**items()[0], "name": "n" * 150, "count": 2**63 - 1}])
    text = _table(monkeypatch, made, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("n") == 150
    assert str(2**63 - 1) in text


def test_a_wide_terminal_leaves_every_row_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made = listing(items=[{**items()[0], "name": "n" * 150}, items()[1]])
    assert len(_table(monkeypatch, made, 200).splitlines()) == 3


def test_wide_folds_nothing_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column("NAME", "name"), Column("SAID", "said", is_sentence=True, is_wide=True))
    made = listing(columns=columns, items=[{"name": "n" * 150, "said": "word " * 40}])
    assert len(_table(monkeypatch, made, 80, format="wide").splitlines()) == 2


def test_headings_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "NAME" in _table(monkeypatch, listing(), 80)
    assert "NAME" not in _table(monkeypatch, listing(), 80, with_headers=False)


def test_a_line_ends_with_its_last_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(line == line.rstrip() for line in _table(monkeypatch, listing(), 200).splitlines())


def test_an_alarm_is_yellow_and_unknown_is_dim(monkeypatch: pytest.MonkeyPatch) -> None:
    made = listing(items=[{**items()[0], "count": 5}, {**items()[0], "count": None}])
    text = _table(monkeypatch, made, 80, with_color=True)
    assert re.search(r"\x1b\[33m *5", text)
    assert re.search(r"\x1b\[2m *-", text)


@pytest.mark.parametrize(("value", "coloured"), [("1", False), ("", True)])
def test_no_color_counts_when_it_is_not_empty(value: str, coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    assert ("\x1b" in _table(monkeypatch, listing(), 80, with_color=True)) == coloured


def test_columns_give_way_on_a_narrow_terminal_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (COLUMNS[0], COLUMNS[1], Column("EXTRA", "extra", gives_way=True))
    made = listing(columns=columns, items=[{**items()[0], "name": "n" * 60, "extra": "e" * 30}])
    assert "EXTRA" in _table(monkeypatch, made, 200)
    assert capsys.readouterr().err == ""
    assert "EXTRA" not in _table(monkeypatch, made, 80)
    assert "EXTRA" in capsys.readouterr().err
    _table(monkeypatch, made, 80, with_notes=False)
    assert capsys.readouterr().err == ""


def test_the_least_important_column_goes_first_and_one_that_still_fits_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (
        COLUMNS[0],
        Column("LEAST", "least", gives_way=1),
        Column("SHORT", "short", gives_way=1),
        Column("OWNER", "owner", gives_way=2),
    )
    item = {**items()[0], "name": "n" * 30, "least": "l" * 30, "short": "s", "owner": "o" * 20}
    assert "LEAST" not in (table := _table(monkeypatch, listing(columns=columns, items=[item]), 70))
    assert "SHORT" in table
    assert "OWNER" in table
    assert "LEAST" in capsys.readouterr().err
    wider = _table(monkeypatch, listing(columns=columns, items=[{**item, "owner": "o" * 60}]), 80)
    assert "OWNER" not in wider
    assert "LEAST" in wider
    assert "SHORT" in wider


def test_empty_columns_go_first_and_then_those_without_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (
        COLUMNS[0],
        Column("EMPTY", "empty"),
        Column("ALARM", "alarm", gives_way=1, is_alarm=lambda item: bool(item["alarm"])),
        Column("CALM", "calm", gives_way=2, is_alarm=lambda item: bool(item["calm"])),
    )
    made = listing(columns=columns, items=[{**items()[0], "name": "n" * 30, "empty": None, "alarm": 1, "calm": 0}])
    shown = {width: _table(monkeypatch, made, width).split("\n")[0].split()[1:] for width in (80, 48, 38)}
    assert shown == {80: ["EMPTY", "ALARM", "CALM"], 48: ["ALARM", "CALM"], 38: ["ALARM"]}


def test_ids_and_owners_are_never_left_out_and_an_id_is_never_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (
        Column("ID", "id", is_id=True),
        Column("TEXT", "text"),
        Column("OWNER", "owner", is_kept=True),
        Column("EXTRA", "extra", gives_way=1),
    )
    item = {"id": "i" * 36, "text": "t" * 40, "owner": None, "extra": "e"}
    table = _table(monkeypatch, listing(columns=columns, items=[item]), 60)
    assert "i" * 36 in table
    assert "OWNER" in table
    assert "EXTRA" not in table


@pytest.mark.parametrize("words", COMMANDS)
def test_no_table_leaves_out_who_or_which(words: str) -> None:
    """Ids, owners and clients stay in every table, however narrow the terminal is."""
    module = import_module(COMMANDS[words][0])
    made = [column for value in vars(module).values() if isinstance(value, tuple) for column in value]
    for column in made:
        if isinstance(column, Column) and column.heading in ("OWNER", "CLIENT", "MSG-ID", "LEDGER", "ID"):
            assert not column.gives_way
            assert column.is_kept or column.is_id or column.is_number or column.is_wide or column is made[0]


_WITH_SENTENCE = (COLUMNS[0], COLUMNS[1], Column("NOTE", "note", is_sentence=True))


def _sentences(*notes: str) -> Listing:
    return listing(
        columns=_WITH_SENTENCE, items=[{"name": f"name{n}", "count": n, "note": note} for n, note in enumerate(notes)]
    )


def test_sentences_are_beside_their_rows_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _table(monkeypatch, _sentences("a b", "c d"), 80).splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("NOTE")
    assert lines[1].endswith("a b")


def test_sentences_are_below_their_rows_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "it stood still for long " * 6
    lines = _table(monkeypatch, _sentences(said, "-", "short"), 80).splitlines()
    assert "NOTE" not in lines[0]
    rows = [index for index, line in enumerate(lines) if line.startswith("name")]
    assert [lines[index].split()[0] for index in rows] == ["name0", "name1", "name2"]
    assert " ".join(map(str.strip, lines[rows[0] + 1 : rows[1]])) == f"note: {said.strip()}"
    assert rows[2] == rows[1] + 1
    assert lines[-1] == "    note: short"
    assert max(map(len, lines)) <= 80
    assert capsys.readouterr().err == ""
    # Rows stay below one another, whatever is between them.
    assert len({lines[index].index(lines[index].split()[1]) for index in rows}) == 1


def test_a_sentence_alone_stays_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    made = listing(columns=_WITH_SENTENCE[2:], items=[{"note": "word " * 40}])
    assert _table(monkeypatch, made, 80).startswith("NOTE\n")


# On a terminal of its own


def _on_a_terminal(*argv: str, **env: str) -> str:
    """Return what the program writes when its standard output is a terminal."""
    ours, theirs = pty.openpty()
    environment: Mapping[str, str] = {**os.environ, "COLUMNS": "100", **env}
    with subprocess.Popen(
        [sys.executable, "-m", "rmqctl", *argv], stdout=theirs, stderr=subprocess.PIPE, env=environment
    ) as process:
        os.close(theirs)
        chunks = []
        try:
            while chunk := os.read(ours, 1 << 16):
                chunks.append(chunk)
        except OSError:
            pass  # Linux ends a terminal that nobody writes to any more like this
        assert process.wait(120) == 0
    os.close(ours)
    return b"".join(chunks).decode()


def test_a_terminal_gets_colours_unless_told_otherwise() -> None:
    argv = ("explain", "206", "--columns", "code,name")
    coloured = _on_a_terminal(*argv)
    assert "\x1b[1m" in coloured
    for plain in (
        _on_a_terminal(*argv, "--no-color"),
        _on_a_terminal(*argv, NO_COLOR="1"),
        _on_a_terminal(*argv, TERM="dumb"),
    ):
        assert "\x1b" not in plain
        assert plain.split() == _STYLE.sub("", coloured).split()


def test_the_names_of_these_tests_hold_markup() -> None:
    assert any("[red]" in name for name in NAMES)
