"""Options that every command takes, before or after its words."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer
from typer.core import TyperOption

from rmqctl import __version__

# Those that people read; the others are for programs.
MARKUPS = ("markdown", "html")
TABLE_FORMATS = ("table", "wide", "plain", "vertical", *MARKUPS)
FORMATS = (*TABLE_FORMATS, "json", "jsonl", "yaml", "csv", "tsv", "name")

# Where the given values are kept: each option hands its own to _store() as it is parsed, at the root or at the command.
_KEY = "rmqctl.globals"

_REPEATED = frozenset({"where", "map_address"})

# name: (declarations, metavar or None for a flag, help)
_OPTIONS: dict[str, tuple[tuple[str, ...], str | None, str]] = {
    "namesrv": (("-n", "--namesrv"), "ADDR", "Name servers, host:port[;host:port] or a URL. Env: NAMESRV_ADDR."),
    "context": (("--context",), "NAME", "A context of the configuration file. Env: RMQCTL_CONTEXT."),
    "namespace": (("--namespace",), "NS", "Groups and topics are those of this namespace (NS%name)."),
    "output": (("-o", "--output"), "FORMAT", f"{', '.join(FORMATS)}."),
    "columns": (("--columns",), "A,B", "Columns to show, by their JSON names."),
    "where": (
        ("--where",),
        "CONDITION",
        "Only rows that meet this, such as 'lag>0'; = != > < >= <= ~ !~. Repeatable.",
    ),
    "sort": (("--sort",), "A,-B", "Order of the rows by JSON names; -B is the largest first."),
    "timeout": (("--timeout",), "TIME", "Deadline of the whole command. [default: 10s]"),
    "credentials": (("--credentials",), "FILE", "accessKey and secretKey. Env: RMQCTL_ACCESS_KEY, RMQCTL_SECRET_KEY."),
    "tls": (("--tls",), None, "Speak TLS; so do the options that begin with --tls."),
    "tls_ca": (("--tls-ca",), "FILE", "Certificates of the authorities to trust (PEM)."),
    "tls_cert": (("--tls-cert",), "FILE", "Our own certificate (PEM)."),
    "tls_key": (("--tls-key",), "FILE", "Its key, where the certificate's file doesn't hold it."),
    "tls_verify": (("--tls-verify",), "HOW", "full, ca (not whose it is) or none (trust anybody). [default: full]"),
    "map_address": (("--map-address",), "BROKER=ADDR", "Reach a broker at another address. May be repeated."),
    "no_headers": (("--no-headers",), None, "Leave out the row of headings."),
    "quiet": (("-q", "--quiet"), None, "No notes, only data and warnings."),
    "no_color": (("--no-color",), None, "No colour. Env: NO_COLOR."),
    "no_input": (("--no-input",), None, "Never ask: a change without --yes is refused, as in a script."),
    "debug": (("--debug",), None, "Show tracebacks."),
}


class RunState:
    """What the front door learns of a run besides its exit code: whether errors are to be JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json


def _store(ctx: Any, param: Any, value: Any) -> Any:
    if value not in (None, False, ()):
        given_globals(ctx)[param.name] = value
    return value


def given_globals(ctx: Any) -> dict[str, Any]:
    """Return the global options that were given, by name."""
    values: dict[str, Any] = ctx.find_root().meta.setdefault(_KEY, {})
    return values


@cache
def global_params() -> tuple[TyperOption, ...]:
    """Return the options as parameters of any command; their values go to given_globals(), not to its function.

    Made without a function's signature, which typer takes 2 ms to read each time.
    """
    return tuple(
        TyperOption(
            param_decls=[name, *declarations],
            type=str if metavar else None,
            is_flag=metavar is None,
            multiple=name in _REPEATED,
            default=None if metavar else False,
            metavar=metavar,
            help=text,
            callback=_store,
            expose_value=False,
            show_default=False,
        )
        for name, (declarations, metavar, text) in _OPTIONS.items()
    )


def version_param() -> TyperOption:
    """Return the root's --version."""

    def show(ctx: Any, param: Any, value: Any) -> None:  # noqa: ARG001
        if value and not ctx.resilient_parsing:
            typer.echo(f"rmqctl {__version__}")
            ctx.exit(0)

    return TyperOption(
        param_decls=["version", "-V", "--version"],
        is_flag=True,
        is_eager=True,
        default=False,
        help="Show the version.",
        callback=show,
        expose_value=False,
        show_default=False,
    )
