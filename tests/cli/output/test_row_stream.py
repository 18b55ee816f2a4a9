from __future__ import annotations

import json

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Column
from rmqctl.cli.output.row_stream import RowStream
from rmqctl.errors import UsageError
from rmqctl.text.filters import parse_condition

COLUMNS = (Column("NAME", "name"), Column("N", "n", is_number=True), Column("MORE", "more", is_wide=True))
Captured = pytest.CaptureFixture[str]


def _stream(**display: object) -> RowStream:
    return RowStream("ThingList", COLUMNS, lambda item: str(item["name"]), Display(**display))  # type: ignore[arg-type]


def test_a_table_has_one_row_of_headings_and_columns_that_only_grow(capsys: Captured) -> None:
    stream = _stream()
    stream.write([{"name": "a", "n": 1, "more": "x"}])
    stream.write([{"name": "longer", "n": 1000, "more": "x"}])
    stream.write([{"name": "b", "n": 2, "more": "x"}])
    assert capsys.readouterr().out.splitlines() == ["NAME  N", "a     1", "longer  1000", "b          2"]


def test_each_line_is_out_at_once(capsys: Captured) -> None:
    stream = _stream(format="jsonl")
    for number in range(3):
        stream.write([{"name": "a", "n": number}])
        assert json.loads(capsys.readouterr().out) == {"name": "a", "n": number}


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        ("wide", "NAME  N  MORE\na     1  x\nb     2  y\n"),
        ("plain", "NAME  N\na     1\nb     2\n"),
        ("vertical", "NAME  a\nN     1\nMORE  x\n\nNAME  b\nN     2\nMORE  y\n"),
        ("csv", "name,n,more\na,1,x\nb,2,y\n"),
        ("tsv", "name\tn\tmore\na\t1\tx\nb\t2\ty\n"),
        ("name", "a\nb\n"),
    ],
)
def test_every_format_of_lines_is_one_whole(format_: str, expected: str, capsys: Captured) -> None:
    stream = _stream(format=format_)
    stream.write([{"name": "a", "n": 1, "more": "x"}])
    stream.write([{"name": "b", "n": 2, "more": "y"}])
    assert capsys.readouterr().out == expected


def test_columns_headers_and_conditions_are_as_asked(capsys: Captured) -> None:
    stream = _stream(columns=("n",), with_headers=False, conditions=(parse_condition("n>1"),))
    for number in range(4):
        stream.write([{"name": "a", "n": number}])
    assert capsys.readouterr().out == "2\n3\n"


def test_hostile_text_is_harmless(capsys: Captured) -> None:
    for form in ("table", "plain", "vertical", "csv", "tsv", "name", "jsonl"):
        _stream(format=form).write([{"name": "\x1b[31mx\u202e\n", "n": 1, "more": ""}])
        assert not set(capsys.readouterr().out) & set("\x1b\u202e")


@pytest.mark.parametrize("format_", ["json", "yaml", "markdown", "html"])
def test_one_document_is_refused(format_: str) -> None:
    with pytest.raises(UsageError, match="is not supported") as caught:
        _stream(format=format_)
    assert "-o jsonl" in str(caught.value.hint)


def test_an_order_is_refused() -> None:
    with pytest.raises(UsageError, match="--sort is not supported"):
        _stream(sort_keys=("n",))


def test_a_condition_on_what_there_is_not_is_a_mistake() -> None:
    stream = _stream(conditions=(parse_condition("nmae=a"),))
    with pytest.raises(UsageError, match="Unknown key 'nmae'") as caught:
        stream.write([{"name": "a", "n": 1}])
    assert caught.value.hint == "Did you mean name?"


def test_it_returns_the_rows_that_it_wrote(capsys: Captured) -> None:
    stream = _stream(format="name", conditions=(parse_condition("n>1"),))
    items = [{"name": "a", "n": number} for number in range(6)]
    written = (stream.write(items[:2]), stream.write(items), stream.write(items, at_most=3))
    assert written == ([], items[2:], items[2:5])
    assert capsys.readouterr().out == "a\n" * 7


def test_one_huge_cell_does_not_widen_all_rows_after_it(capsys: Captured) -> None:
    stream = _stream()
    stream.write([{"name": "a" * 32_000, "n": 1}])
    stream.write([{"name": "a", "n": 1}])
    assert len(capsys.readouterr().out.splitlines()[-1]) < 100
