"""rmqctl explain: what a code or a finding means, and what to do. Needs no cluster."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import render
from rmqctl.errors import NotFoundError
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.text.names import closest

if TYPE_CHECKING:
    from rmqctl.diagnose.finding import Check

HELP = """\b
Examples:
  rmqctl explain 206
  rmqctl explain CONSUMER_NOT_ONLINE
  rmqctl explain SUB001
  rmqctl explain SUB

A number can be both a response code and a request code; both are shown, the response first. A prefix such as SUB shows
all findings whose codes start with it."""


def command(
    ctx: typer.Context,
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="Number or name of a code, or code of a finding.", show_default=False)
    ],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx, needs_cluster=False)
    items = _find(code)
    if invocation.display.format == "table" and not invocation.display.columns:
        typer.echo("\n\n".join(_paragraph(item) for item in items))
        return 0
    listing = Listing(kind="CodeList", columns=_COLUMNS, items=items, name=lambda item: str(item["name"]))
    return render(listing, invocation.display)


def _find(text: str) -> list[dict[str, Any]]:
    wanted = text.strip().upper()
    responses = [code for code in ResponseCode if wanted in (str(code.value), code.name)]
    requests = [code for code in RequestCode if wanted in (str(code.value), code.name)]
    items: list[dict[str, Any]] = []
    if responses:
        notes = read_notes("response")
        items += [{"code": code.value, "name": code.name, "role": "response", **notes[code.name]} for code in responses]
    if requests:
        notes = read_notes("request")
        items += [
            {"code": code.value, "name": code.name, "role": "request", "meaning": notes[code.name], "advice": None}
            for code in requests
        ]
    if not items:  # plugins are loaded only for codes that may be theirs
        checks = _own_checks()
        items = [_finding_item(check) for check in checks if check.code.startswith(wanted or " ")]
    if not items:
        names = [code.name for code in (*ResponseCode, *RequestCode)] + [check.code for check in checks]
        raise NotFoundError("Code", text.strip(), suggestions=closest(wanted, names))
    return items


def read_notes(role: str) -> dict[str, Any]:
    """Return what is known about the codes of "response" or "request", by their names; see the two TOML files."""
    import tomllib

    return tomllib.loads(Path(__file__).with_name(f"{role}_codes.toml").read_text(encoding="utf-8"))


def _own_checks() -> "tuple[Check, ...]":
    from rmqctl.plugin.loader import all_checks, load_plugins

    return all_checks(load_plugins())


def _finding_item(check: "Check") -> dict[str, Any]:
    severity = str(check.severity).lower()
    return {
        "code": check.code,
        "name": check.title,
        "role": "finding",
        "meaning": f"{check.meaning} Severity: {severity}.",
        "advice": check.advice,
    }


def _paragraph(item: dict[str, Any]) -> str:
    import shutil
    import textwrap

    width = min(shutil.get_terminal_size().columns, 100)
    lines = [f"{item['code']} {item['name']} ({item['role']}{'' if item['role'] == 'finding' else ' code'})"]
    lines += [textwrap.fill(text, width) for text in (item["meaning"], item["advice"]) if text]
    return "\n".join(lines)


_COLUMNS = (
    Column("CODE", "code"),
    Column("NAME", "name"),
    Column("ROLE", "role"),
    Column("MEANING", "meaning"),
    Column("ADVICE", "advice", is_wide=True),
)
