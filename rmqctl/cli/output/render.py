"""Writes a listing: data to stdout, notes and warnings to stderr."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rmqctl.cli.globals import MARKUPS, TABLE_FORMATS
from rmqctl.errors import NotAskedError, NotRegisteredError, UnreachableError, UsageError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.text.filters import is_met, ordered, require_comparable, undecided_counts
from rmqctl.text.names import hint_for
from rmqctl.text.option_errors import option_errors
from rmqctl.text.words import counted, listed

from .display import Display
from .listing import Column, Item, Listing, Section
from .plain_table import plain_table
from .text import end_waiting, note_to_stderr, printable, printable_json, to_stderr

_API_VERSION = "rmqctl/v1"


def render(listing: Listing, display: Display) -> int:
    """Write a listing in the wanted format and return the exit code."""
    columns, listing = _prepared(listing, display)
    is_own = display.format in listing.own_formats
    is_table = display.format in TABLE_FORMATS
    if is_table and display.with_notes:
        for heading in listing.headings:
            note_to_stderr(printable(heading))
    text = _text(listing, columns, display)
    end_waiting()
    sys.stdout.write(text)
    sys.stdout.flush()
    if is_table and display.with_notes:
        for note in (*(listing.row_notes(listing.items) if listing.row_notes else ()), *listing.notes):
            note_to_stderr(printable(note))
    _warn(listing, display.findings.hints, with_failures=not is_own and display.format not in ("json", "yaml"))
    if listing.failures:
        display.findings.partial_codes.append(listing.exit_code)
    return listing.exit_code


def compose(listing: Listing, display: Display) -> str:
    """Return a listing in the wanted format, for a file."""
    columns, listing = _prepared(listing, display)
    return _text(listing, columns, display)


def _prepared(listing: Listing, display: Display) -> tuple[list[Column], Listing]:
    """Return the columns to show, and the listing with the rows to show and all failures and warnings of the run."""
    columns = choose_columns(listing.columns, display)
    listing = _arranged(listing, display)
    listing = replace(
        listing,
        failures=with_failures_of_run(listing.failures, display.findings.failures),
        warnings=(*listing.warnings, *(f"warning: {warning}" for warning in display.findings.warnings)),
    )
    return columns, _with_local_times(listing) if display.with_local_times else listing


def _with_local_times(listing: Listing) -> Listing:
    from .local_times import local_item, local_text

    notes = (*(listing.row_notes(listing.items) if listing.row_notes else ()), *listing.notes)
    return replace(
        listing,
        items=[local_item(item) for item in listing.items],
        notes=[local_text(note) for note in notes],
        row_notes=None,
        headings=[local_text(heading) for heading in listing.headings],
        warnings=[local_text(warning) for warning in listing.warnings],
    )


def _text(listing: Listing, columns: list[Column], display: Display) -> str:
    if display.format in listing.own_formats:
        return listing.own_formats[display.format]()
    write = {"json": _json, "jsonl": _jsonl, "yaml": _yaml, "csv": _csv, "tsv": _tsv, "name": _names}
    below = listing.below if display.format in TABLE_FORMATS else None
    return write.get(display.format, _table)(listing, columns, display) + ("" if below is None else below())


def with_failures_of_run(own: Sequence[Failure], of_run: Sequence[Failure]) -> tuple[Failure, ...]:
    """Return the failures of a result and of its run, each once; so is a broker that the result names as missing."""
    named = {failure.broker_name for failure in own if isinstance(failure.error, NotRegisteredError)} - {None}
    known = {(failure.broker_name, failure.what) for failure in own}
    more = (each for each in of_run if each.broker_name not in named and (each.broker_name, each.what) not in known)
    return (*own, *more)


def _warn(listing: Listing, hints: Mapping[str, str], *, with_failures: bool) -> None:
    """Write warnings and what could not be read or written, also with -q: a partial result must never look complete.

    Documents contain their own failures.
    """
    for warning in listing.warnings:
        to_stderr(f"rmqctl: {printable(warning)}")
    if with_failures:
        write_failures(listing.failures, hints)


def write_failures(failures: Sequence[Failure], hints: Mapping[str, str]) -> None:
    """Write what could not be read or written to stderr; `hints` are those of the run, by address."""
    merged = _merged(failures)
    for failure, parts in merged[:_MOST_LINES]:
        where = f"{failure.broker_name}: " if failure.broker_name else ""
        what = printable(where + listed(parts))
        to_stderr(f"rmqctl: {_FAILED[failure.attempt]}: {what}: {printable(failure.error.sentence)}")
    if len(merged) > _MOST_LINES:
        to_stderr(f"rmqctl: {counted(len(merged) - _MOST_LINES, 'more failure')}; -o json lists all of them.")
    for hint in hints_of(failures, hints)[:_MOST_LINES]:
        to_stderr(f"        {printable(hint)}")


def hints_of(failures: Sequence[Failure], hints: Mapping[str, str]) -> list[str]:
    """Return the hints that belong to failures, each once; `hints` are those of the run, by address."""
    unreached = {failure.error.address for failure in failures if isinstance(failure.error, UnreachableError)}
    return [hint for address, hint in sorted(hints.items()) if address in unreached]


_FAILED = {
    Attempt.READ: "not read",
    Attempt.WRITE: "not written",
    Attempt.UNANSWERED_WRITE: "write not answered",
}


# Of more failures and hints than this, the rest is counted: a document lists all of them.
_MOST_LINES = 100
# Up to this many failures with the same reason are listed one by one.
_LINES_ALIKE = 3


def _merged(failures: Sequence[Failure]) -> list[tuple[Failure, list[str]]]:
    """Return failures to show, each with what failed alike. Documents list all of them."""
    alike: dict[tuple[object, ...], list[Failure]] = {}
    for failure in failures:
        key: tuple[object, ...] = failure.broker_name, failure.error.sentence
        if isinstance(failure.error, NotAskedError):
            key = NotAskedError.name, failure.is_of_group  # groups apart from parts of groups: their number is exact
        alike.setdefault(key, []).append(failure)
    shown: list[tuple[Failure, list[str]]] = []
    for each in alike.values():
        if len(each) > _LINES_ALIKE:
            shown.append((each[0], [failure.what for failure in each]))
        else:
            shown += [(failure, [failure.what]) for failure in each]
    return shown


def choose_columns(known: Sequence[Column], display: Display) -> list[Column]:
    """Return the columns to show. Raises UsageError for an unknown one; commands call it before any request."""
    by_key = {column.key: column for column in known}
    for key in display.columns:
        if key not in by_key:
            hint = hint_for(key, by_key)
            raise UsageError(f"Unknown column {key!r}.", hint=hint)
    if display.columns:
        return [by_key[key] for key in display.columns]
    if display.format in TABLE_FORMATS and not display.shows_all:
        return [column for column in known if not column.is_wide]
    return list(known)


def _arranged(listing: Listing, display: Display) -> Listing:
    """Return the listing with only the rows that meet all conditions, in the wanted order."""
    wanted = [condition.key for condition in display.conditions]
    wanted += [key.removeprefix("-") for key in display.sort_keys]
    if not wanted or not listing.items:
        return listing
    known = {column.key for column in listing.columns}.union(*listing.items)
    for key in wanted:
        if key not in known:
            raise UsageError(
                f"Unknown key {key!r} in --where or --sort.",
                hint=hint_for(key, sorted(known)),
            )
    for condition in display.conditions:
        with option_errors("--where"):
            require_comparable(condition, listing.items)
    kept = [item for item in listing.items if all(is_met(condition, item) for condition in display.conditions)]
    undecided = [
        f"{counted(count, 'row')} with unknown {key} {'was' if count == 1 else 'were'} not compared (--where)."
        for key, count in undecided_counts(display.conditions, listing.items).items()
    ]
    return replace(
        listing,
        items=ordered(kept, display.sort_keys),
        empty="No rows match." if display.conditions else listing.empty,
        notes=[*listing.notes, *_left_out(len(listing.items) - len(kept))],
        warnings=[*listing.warnings, *undecided],
    )


def _left_out(count: int) -> list[str]:
    return [f"{counted(count, 'more row')} {'does' if count == 1 else 'do'} not match (--where)."] if count else []


def _selected(listing: Listing, columns: list[Column], display: Display) -> list[dict[str, Any]]:
    """Return the items as JSON has them: whole, or the chosen columns with their reasons."""
    if not display.columns:
        return [dict(item) for item in listing.items]
    return [_narrowed(item, [column.key for column in columns]) for item in listing.items]


def _narrowed(item: Item, keys: list[str]) -> dict[str, Any]:
    narrowed = {key: item.get(key) for key in keys}
    if "reasons" in item:
        narrowed["reasons"] = {key: reason for key, reason in item["reasons"].items() if key in keys}
    return narrowed


def _document(listing: Listing, columns: list[Column], display: Display) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
        "kind": listing.kind,
        **listing.extra,
        "items": _selected(listing, columns, display),
        "errors": listing.errors(),
    }


def _dumps(value: Any, *, indent: int | None = None) -> str:
    return printable_json(
        json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    )


def _json(listing: Listing, columns: list[Column], display: Display) -> str:
    return _dumps(_document(listing, columns, display), indent=2) + "\n"


def _jsonl(listing: Listing, columns: list[Column], display: Display) -> str:
    return "".join(f"{_dumps(item)}\n" for item in _selected(listing, columns, display))


def _yaml(listing: Listing, columns: list[Column], display: Display) -> str:
    try:
        import yaml
    except ImportError:
        raise UsageError("-o yaml needs PyYAML.", hint="In a checkout of rmqctl: pip install '.[yaml]'.") from None

    class Dumper(yaml.SafeDumper):
        """Double-quotes texts with characters that are written as escapes."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')

    Dumper.add_representer(str, represent)
    # Through JSON, so that both formats show the same plain values.
    plain = json.loads(_dumps(_document(listing, columns, display)))
    return printable_json(yaml.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True))


def _csv(listing: Listing, columns: list[Column], display: Display) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if display.with_headers:
        writer.writerow([column.key for column in columns])
    writer.writerows([_raw(item.get(column.key)) for column in columns] for item in listing.items)
    return out.getvalue()


def _tsv(listing: Listing, columns: list[Column], display: Display) -> str:
    rows = [[column.key for column in columns]] if display.with_headers else []
    rows += [[_raw(item.get(column.key)) for column in columns] for item in listing.items]
    return "".join("\t".join(row) + "\n" for row in rows)


def _raw(value: Any) -> str:
    """Return a value for csv and tsv: exact numbers, empty for unknown, lists joined by blanks, tables as JSON."""
    if value is None:
        return ""
    if isinstance(value, dict) or (isinstance(value, (list, tuple)) and any(isinstance(each, dict) for each in value)):
        return printable(_dumps(value))
    if isinstance(value, (list, tuple)):
        return printable(" ".join(map(str, value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return printable(str(value))


def _names(listing: Listing, columns: list[Column], display: Display) -> str:  # noqa: ARG001
    return "".join(f"{printable(listing.name(item))}\n" for item in listing.items)


def _table(listing: Listing, columns: list[Column], display: Display) -> str:
    if not listing.items:
        if display.with_notes:
            is_whole = all(failure.attempt is not Attempt.READ for failure in listing.failures)
            note_to_stderr(printable(listing.empty if is_whole else _as_far_as_read(listing.empty)))
        return ""
    if listing.sections is None or display.columns:
        items = listing.items if listing.merged is None else listing.merged(listing.items)
        return _rows(items, columns, display)
    shown = [_section(part, display) for item in listing.items for part in listing.sections(item, display.shows_all)]
    return "\n".join(shown)


def _as_far_as_read(sentence: str) -> str:
    """Return a sentence that there is nothing, limited to the data that was read."""
    first, second = sentence[:1], sentence[1:2]
    return f"In the part that was read: {first.lower() if second.islower() else first}{sentence[1:]}"


def _section(section: Section, display: Display) -> str:
    """Return one part of an item that is shown in full."""
    text = _heading(section.title, display) if section.title is not None else ""
    facts = [(printable(name), printable(value)) for name, value in section.facts]
    if facts and display.format in MARKUPS:
        from .markup import markup_table

        text += markup_table(("", ""), facts, (False, False), display.format)
    elif facts:
        text += plain_table(facts, (False, False))
    if section.items:
        columns = [column for column in section.columns if display.shows_all or not column.is_wide]
        text += _rows(section.items, columns, display)
    return text


def _is_rich(display: Display) -> bool:
    return display.format in ("table", "wide") and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _heading(title: str, display: Display) -> str:
    if display.format in MARKUPS:
        from .markup import markup_heading

        return markup_heading(printable(title), display.format)
    if not _is_rich(display):
        return f"{printable(title)}\n"
    from .rich_table import rich_heading

    return rich_heading(title, display)


def _rows(items: Sequence[Item], columns: Sequence[Column], display: Display) -> str:
    if _is_rich(display):
        from .rich_table import rich_table

        return rich_table(items, columns, display)
    rows = [[printable(column.cell(item)) for column in columns] for item in items]
    headings = [column.heading for column in columns]
    right_aligned = [column.is_number for column in columns]
    if display.format == "vertical":
        return "\n".join(plain_table(list(zip(headings, row, strict=True)), (False, False)) for row in rows)
    if display.format in MARKUPS:
        from .markup import markup_table

        return markup_table(headings if display.with_headers else (), rows, right_aligned, display.format)
    return plain_table([headings, *rows] if display.with_headers else rows, right_aligned)
