"""Options that every command takes, before or after its words."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.main import get_command

FORMATS = ("table", "wide", "plain", "json", "jsonl", "yaml", "csv", "tsv", "name")

# Where the given values are kept: typer hands each to _store() as it is parsed, at the root or at the command.
_KEY = "rmqctl.globals"


def _declare(
    namesrv: Annotated[
        str | None,
        typer.Option("-n", "--namesrv", metavar="ADDR", help="Name servers, host:port[;host:port]. Env: NAMESRV_ADDR."),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="A context of the configuration file.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FORMAT", help=f"{', '.join(FORMATS)}.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Columns to show, by their JSON names.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Deadline of the whole command. [default: 10s]")
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the row of headings.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No notes and warnings.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour. Env: NO_COLOR.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Only declares the options."""


def _store(ctx: Any, param: Any, value: Any) -> Any:
    if value not in (None, False):
        given_globals(ctx)[param.name] = value
    return value


def given_globals(ctx: Any) -> dict[str, Any]:
    """Return the global options that were given, by name."""
    values: dict[str, Any] = ctx.find_root().meta.setdefault(_KEY, {})
    return values


def global_params() -> list[Any]:
    """Return the options as parameters of a command; their values go to given_globals(), not to its function."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_declare)
    params = get_command(app).params
    for param in params:
        param.expose_value = False
        param.callback = _store
    return params
