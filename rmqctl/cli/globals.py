"""The global options, which every command accepts before or after its words."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer
from typer.core import TyperOption

from rmqctl import __version__

# Formats for people; the others are for programs.
MARKUPS = ("markdown", "html")
TABLE_FORMATS = ("table", "wide", "plain", "vertical", *MARKUPS)
FORMATS = (*TABLE_FORMATS, "json", "jsonl", "yaml", "csv", "tsv", "name")

# Key of the given values: each option passes its value to _store() when it is parsed, at the root or at the command.
_KEY = "rmqctl.globals"

_REPEATED = frozenset({"where", "map_address"})

# name: (declarations, metavar or None for a flag, help)
_OPTIONS: dict[str, tuple[tuple[str, ...], str | None, str]] = {
    "namesrv": (("-n", "--namesrv"), "ADDR", "Name servers, host:port[;host:port] or a URL. Env: NAMESRV_ADDR."),
    "context": (("--context",), "NAME", "Context of the configuration file. Env: RMQCTL_CONTEXT."),
    "namespace": (("--namespace",), "NS", "Namespace of all groups and topics (NS%name)."),
    "output": (("-o", "--output"), "FORMAT", f"Output format: {', '.join(FORMATS)}."),
    "columns": (("--columns",), "A,B", "Columns to show, by their JSON names."),
    "where": (
        ("--where",),
        "CONDITION",
        "Show only matching rows, for example 'lag>0'; = != > < >= <= ~ !~. Repeatable.",
    ),
    "sort": (("--sort",), "A,-B", "Sort rows by these JSON names; -B sorts the largest first."),
    "timeout": (
        ("--timeout",),
        "DURATION",
        "Deadline for the whole command, without waits such as --for. [default: 10s]",
    ),
    "credentials": (
        ("--credentials",),
        "FILE",
        "File with accessKey and secretKey. Env: RMQCTL_ACCESS_KEY, RMQCTL_SECRET_KEY.",
    ),
    "tls": (("--tls",), None, "Connect with TLS (implied by any --tls-* option)."),
    "tls_ca": (("--tls-ca",), "FILE", "CA certificates to trust (PEM)."),
    "tls_cert": (("--tls-cert",), "FILE", "Client certificate (PEM)."),
    "tls_key": (("--tls-key",), "FILE", "Private key, if not in the --tls-cert file."),
    "tls_verify": (
        ("--tls-verify",),
        "MODE",
        "full, ca (skip the host name check) or none (no verification). [default: full]",
    ),
    "map_address": (("--map-address",), "BROKER=ADDR", "Connect to a broker at another address. Repeatable."),
    "local": (("--local",), None, "Show the times of tables in the local time zone. Default: UTC."),
    "no_headers": (("--no-headers",), None, "Omit the header row."),
    "quiet": (("-q", "--quiet"), None, "Print only data and warnings, no notes."),
    "no_color": (("--no-color",), None, "Disable color. Env: NO_COLOR."),
    "no_input": (("--no-input",), None, "Never prompt; a change without --yes is refused."),
    "debug": (("--debug",), None, "Show tracebacks."),
}


class RunState:
    """What a run reports to the entry point, apart from its exit code.

    `as_json`: whether errors are written as JSON. `error_code`: the exit code of every error, None for its own.
    `findings`: what a command that asks a cluster found apart from its results (RunFindings).
    """

    def __init__(self, *, as_json: bool, error_code: int | None = None) -> None:
        self.as_json = as_json
        self.error_code = error_code
        self.findings: Any = None


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

    They are built directly, because typer would need 2 ms each time to read them from a function's signature.
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
        help="Show the version and exit.",
        callback=show,
        expose_value=False,
        show_default=False,
    )
