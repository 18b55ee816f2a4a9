from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import yaml

from rmqctl.cli.globals import FORMATS, TABLE_FORMATS
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from rmqctl.errors import NotAskedError, UnreachableError, UsageError
from rmqctl.model.failure import Attempt, Failure

from .hostile import COLUMNS, FAILURES, NAMES, items, listing, raw_in

Captured = pytest.CaptureFixture[str]


def _render(capsys: Captured, made: Listing, **display: Any) -> tuple[int, str, str]:
    code = render(made, Display(**display))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# Whatever the format


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_raw_reaches_the_output(form: str, capsys: Captured) -> None:
    code, out, err = _render(capsys, listing(failures=FAILURES), format=form)
    assert code == 8
    assert raw_in(out) <= ({"\t"} if form == "tsv" else set())
    assert not raw_in(err)
    (out + err).encode()


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_listing_has_no_data_and_is_no_error(form: str, capsys: Captured) -> None:
    code, out, err = _render(capsys, listing(items=[]), format=form)
    assert code == 0
    if form in TABLE_FORMATS:
        assert (out, err.splitlines()[0]) == ("", "Nothing \\x1b[31mhere.")
    else:
        assert err == ""
    if form in ("jsonl", "name"):
        assert out == ""


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_quiet_silences_notes_and_the_word_of_an_empty_table(form: str, capsys: Captured) -> None:
    assert _render(capsys, listing(), format=form)[2] == "A note about \\x1b[31mthis.\n"
    assert _render(capsys, listing(), format=form, with_notes=False)[2] == ""
    assert _render(capsys, listing(items=[]), format=form, with_notes=False) == (0, "", "")


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("json", "yaml")])
def test_quiet_does_not_silence_what_could_not_be_read(form: str, capsys: Captured) -> None:
    code, _, err = _render(capsys, listing(failures=FAILURES), format=form, with_notes=False)
    assert code == 8
    assert err.splitlines() == [
        "rmqctl: not read: broker-\\x1b[31mb: offsets\\x0a: b:1\\x9b: connection refused.",
        "rmqctl: not read: route of T: ns:1: connection refused.",
    ]


@pytest.mark.parametrize(
    ("attempt", "words"),
    [(Attempt.READ, "not read"), (Attempt.WRITE, "not written"), (Attempt.UNANSWERED_WRITE, "write not answered")],
)
def test_what_failed_is_called_what_it_was(attempt: Attempt, words: str, capsys: Captured) -> None:
    failure = Failure("broker-a", "offset of T", UnreachableError("a:1", "gone"), attempt)
    _, out, err = _render(capsys, listing(failures=[failure]), format="plain")
    assert err.splitlines()[-1] == f"rmqctl: {words}: broker-a: offset of T: a:1: gone."
    _, out, _ = _render(capsys, listing(failures=[failure]), format="json")
    assert json.loads(out)["errors"][0]["attempt"] == attempt.value


@pytest.mark.parametrize("form", ["json", "jsonl", "yaml", "csv", "tsv", "name"])
def test_formats_for_programs_have_no_notes(form: str, capsys: Captured) -> None:
    assert _render(capsys, listing(), format=form)[2] == ""


@pytest.mark.parametrize("form", FORMATS)
def test_a_column_that_there_is_not_is_a_usage_error_before_anything_is_written(form: str, capsys: Captured) -> None:
    with pytest.raises(UsageError) as caught:
        render(listing(), Display(format=form, columns=("name", "cuont")))
    assert (caught.value.sentence, caught.value.hint) == ("Unknown column 'cuont'.", "Did you mean count?")
    assert capsys.readouterr() == ("", "")


# JSON


def test_json_has_every_value_exactly(capsys: Captured) -> None:
    _, out, _ = _render(capsys, listing(failures=FAILURES), format="json")
    document = json.loads(out)
    assert document == {
        "apiVersion": "rmqctl/v1",
        "kind": "TestList",
        "summary": {"lag": 2**63 - 1, "who": NAMES[1]},
        "items": items(),
        "errors": [
            {
                "brokerName": "broker-\x1b[31mb",
                "what": "offsets\n",
                "attempt": "READ",
                "name": "UNREACHABLE",
                "message": "b:1\x9b: connection refused.",
            },
            {
                "brokerName": None,
                "what": "route of T",
                "attempt": "READ",
                "name": "UNREACHABLE",
                "message": "ns:1: connection refused.",
            },
        ],
    }
    assert list(document) == ["apiVersion", "kind", "summary", "items", "errors"]


def test_json_keeps_letters_of_other_scripts_readable(capsys: Captured) -> None:
    assert "\u4e2d\u6587" in _render(capsys, listing(), format="json")[1]


def test_jsonl_is_one_item_a_line(capsys: Captured) -> None:
    _, out, _ = _render(capsys, listing(), format="jsonl")
    assert [json.loads(line) for line in out.split("\n")[:-1]] == items()


def test_json_of_chosen_columns_keeps_the_reasons_of_their_nulls(capsys: Captured) -> None:
    chosen = [
        {"count": 1, "name": "a", "reasons": {}},
        {"count": None, "name": "b", "reasons": {"count": "WHY", "x": "Y"}},
    ]
    for form in ("json", "jsonl"):
        _, out, _ = _render(capsys, listing(items=chosen), format=form, columns=("count",))
        found = json.loads(out)["items"] if form == "json" else [json.loads(line) for line in out.splitlines()]
        assert found == [{"count": 1, "reasons": {}}, {"count": None, "reasons": {"count": "WHY"}}]


def test_yaml_has_the_same_values_as_json(capsys: Captured) -> None:
    made = listing(failures=FAILURES)
    _, as_yaml, _ = _render(capsys, made, format="yaml")
    _, as_json, _ = _render(capsys, made, format="json")
    assert yaml.safe_load(as_yaml) == json.loads(as_json)
    assert "\u4e2d\u6587" in as_yaml


# CSV, TSV, names


def test_csv_parses_back(capsys: Captured) -> None:
    _, out, _ = _render(capsys, listing(), format="csv")
    header, *rows = csv.reader(io.StringIO(out))
    assert header == ["name", "count", "tags", "active"]
    assert len(rows) == len(NAMES)
    by_name = {row[0]: row for row in rows}
    assert by_name['comma, "quote" ; semicolon'][1:3] == ["", 'comma, "quote" ; semicolon b']
    assert by_name["plain"] == ["plain", "0", "plain b", "true"]
    assert by_name["bidi\\u202eevil\\u2066x\\u2069\\u061c"][1] == "1"
    assert {row[1] for row in rows} == {"0", "1", "-1", str(2**53 + 1), str(2**63 - 1), ""}


def test_tsv_has_one_row_a_line_and_one_field_a_tab(capsys: Captured) -> None:
    _, out, _ = _render(capsys, listing(), format="tsv")
    lines = out.split("\n")[:-1]
    assert len(lines) == len(NAMES) + 1
    assert {line.count("\t") for line in lines} == {3}
    assert "tab\\x09newline\\x0areturn\\x0d" in out


def test_name_is_one_name_a_line(capsys: Captured) -> None:
    _, out, _ = _render(capsys, listing(), format="name")
    assert len(out.split("\n")) == len(NAMES) + 1
    assert out.startswith("plain\n\\x1b[31mred\\x1b[0m\n")


@pytest.mark.parametrize("form", ["csv", "tsv", "table", "wide", "plain"])
def test_headings_can_be_left_out(form: str, capsys: Captured) -> None:
    shown = listing(items=items()[:1])
    _, with_headers, _ = _render(capsys, shown, format=form)
    _, without, _ = _render(capsys, shown, format=form, with_headers=False)
    assert len(with_headers.splitlines()) == 2
    assert len(without.splitlines()) == 1
    assert with_headers.splitlines()[1].split() == without.split()


@pytest.mark.parametrize(("form", "columns"), [("table", 2), ("plain", 2), ("wide", 4), ("csv", 4), ("tsv", 4)])
def test_wide_columns_are_left_out_of_narrow_formats_only(form: str, columns: int, capsys: Captured) -> None:
    _, out, _ = _render(capsys, listing(items=items()[:1]), format=form)
    assert len(out.splitlines()[0].replace(",", " ").split()) == columns


@pytest.mark.parametrize("form", ["table", "plain", "wide", "csv", "tsv"])
def test_columns_are_shown_as_chosen_and_in_that_order(form: str, capsys: Captured) -> None:
    _, out, _ = _render(capsys, listing(items=items()[:1]), format=form, columns=("active", "name"))
    assert out.splitlines()[0].replace(",", " ").lower().split() == ["active", "name"]


# Tables in a pipe


@pytest.mark.parametrize("form", ["table", "wide", "plain"])
def test_a_table_in_a_pipe_is_whole_one_line_a_row_and_numbers_stand_right(form: str, capsys: Captured) -> None:
    long_name = "n" * 300
    shown = listing(items=[{**items()[0], "name": long_name, "count": 2**63 - 1}, {**items()[0], "count": 5}])
    _, out, _ = _render(capsys, shown, format=form)
    lines = out.splitlines()
    assert len(lines) == 3
    assert long_name in lines[1]
    end = lines[1].index(str(2**63 - 1)) + 19
    assert lines[2][:end].endswith(" 5")


def test_a_cell_that_looks_like_a_number_is_shown_as_it_is(capsys: Captured) -> None:
    shown = listing(items=[{**items()[0], "name": name} for name in ("1e5", "007", "1.50", "True")])
    _, out, _ = _render(capsys, shown, format="plain", columns=("name",), with_headers=False)
    assert out.split() == ["1e5", "007", "1.50", "True"]


def test_unknown_is_a_dash_in_tables_and_empty_in_csv(capsys: Captured) -> None:
    shown = listing(items=[{**items()[0], "count": None, "tags": []}])
    assert _render(capsys, shown, format="wide", with_headers=False)[1].split() == ["plain", "-", "-", "True"]
    assert _render(capsys, shown, format="csv", with_headers=False)[1] == "plain,,,true\n"


def test_vertical_is_a_line_for_each_value_and_has_wide_columns(capsys: Captured) -> None:
    rows = [{**items()[0], "name": "one"}, {**items()[0], "name": "n" * 300}]
    _, out, _ = _render(capsys, listing(items=rows), format="vertical")
    first, second = out.split("\n\n")
    for record in (first, second):
        assert [line.split()[0] for line in record.splitlines()] == [column.heading for column in COLUMNS]
    assert "n" * 300 in second


def test_markdown_and_html_escape_what_would_be_markup(capsys: Captured) -> None:
    rows = [{**items()[0], "name": "a|b <i>", "count": 7}]
    _, out, _ = _render(capsys, listing(items=rows), format="markdown", columns=("name", "count"))
    heading, rule, row = out.splitlines()
    assert heading.count("|") == rule.count("|") == row.replace("\\|", "").count("|") == 3
    assert (row.split()[1:3], rule.endswith(":|")) == (["a\\|b", "<i>"], True)
    _, out, _ = _render(capsys, listing(items=rows), format="html", columns=("name",), with_headers=False)
    assert "a|b &lt;i&gt;" in out
    assert "NAME" not in out


def test_the_listing_of_these_tests_has_a_column_of_each_kind() -> None:
    assert {(column.is_number, column.is_wide) for column in COLUMNS} == {(False, False), (True, False), (False, True)}


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_tables_in_a_cell_are_json_rather_than_pythons_own_words(form: str, capsys: Captured) -> None:
    for value in ({"a": ["\x1b[31m", None, True]}, [{"a": 1}]):
        shown = listing(items=[{**items()[0], "name": value}])
        out = _render(capsys, shown, format=form, columns=("name",), with_headers=False)[1]
        cell = next(csv.reader([out])) if form == "csv" else [out.rstrip("\n")]
        assert json.loads(cell[0]) == value


def test_many_parts_that_failed_for_one_reason_are_one_line(capsys: Captured) -> None:
    ours = [Failure(None, f"group g{number}", NotAskedError(f"b{number}:1", 60)) for number in range(283)]
    alike = [Failure("broker-a", f"route {number}", UnreachableError("a:1", "silent")) for number in range(4)]
    few = [Failure("broker-b", f"route {number}", UnreachableError("b:1", "silent")) for number in range(2)]
    made = listing(notes=[], failures=[*few, *ours, *alike])
    assert render(made, Display(format="plain")) == 8
    assert capsys.readouterr().err.splitlines() == [
        "rmqctl: not read: broker-b: route 0: b:1: silent.",
        "rmqctl: not read: broker-b: route 1: b:1: silent.",
        f"rmqctl: not read: group g0, group g1, group g2 and 280 more: {NotAskedError('b0:1', 60).sentence}",
        "rmqctl: not read: broker-a: route 0, route 1, route 2 and 1 more: a:1: silent.",
    ]
    render(made, Display(format="json"))
    assert len(json.loads(capsys.readouterr().out)["errors"]) == 289
