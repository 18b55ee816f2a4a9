"""rmqctl context list: the contexts of the configuration file."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
import os
from typing import Any

import typer

from rmqctl.cli.config.file import Config, ContextConfig, read_config
from rmqctl.cli.config.place import config_path
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure

HELP = """\b
Examples:
  rmqctl context list
  rmqctl context list -o name
  rmqctl context list -o json | jq '.items[] | select(.protected)'

A context with invalid settings keeps its row. No server is contacted; rmqctl context test does that."""


def command(ctx: typer.Context) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(COLUMNS, invocation.display)
    return render(to_listing(read_config()), invocation.display)


def to_listing(config: Config | None) -> Listing:
    """Return the listing of all contexts, in the order of the file."""
    items, failures = [], []
    config = config or Config(config_path(), None, {})
    for name in config.contexts:
        try:
            items.append(to_item(config, config.context(name)))
        except UsageError as error:
            items.append(to_item(config, ContextConfig(name, config.path.parent), error=error.name))
            failures.append(Failure(None, f"context {name}", error))
    return Listing(
        kind="ContextList",
        columns=COLUMNS,
        items=items,
        name=lambda item: str(item["context"]),
        failures=failures,
        notes=[
            f"{variable} is set and overrides the current context."
            for variable in ("RMQCTL_CONTEXT", "NAMESRV_ADDR")
            if os.environ.get(variable) and items
        ],
        empty=f"No contexts in {config_path()}. Create one with rmqctl context set NAME namesrv=HOST:9876.",
    )


def to_item(config: Config, context: ContextConfig, *, error: str | None = None) -> dict[str, Any]:
    """Return a context as a JSON item; None for a setting that the file does not have."""
    tls = None
    if context.tls is not None:
        files = {key: context.path(context.tls.get(key)) for key in ("ca", "cert", "key")}
        tls = {**files, "verify": context.tls.get("verify", "full")}
    return {
        "context": context.name,
        "isCurrent": context.name == config.current,
        "namesrv": _shown_name_servers(context.namesrv),
        "description": context.description,
        "namespace": context.namespace,
        "credentials": context.path(context.credentials),
        "header": context.header,
        "timeout": context.timeout,
        "output": context.output,
        "brokers": context.brokers,
        "memory": context.memory,
        "proxies": context.proxies,
        "readonly": context.readonly,
        "protected": context.protected,
        "tls": tls,
        "mapAddress": dict(context.map_address),
        "error": error,
    }


def _shown_name_servers(text: str | None) -> str | None:
    """Return the name servers without the secrets that a URL can hold."""
    if text is None or "://" not in text:
        return text
    from rmqctl.net.discovery import shown_url

    try:
        return shown_url(text)
    except UsageError:
        return "(invalid URL)"


def _show_marks(item: Item) -> str:
    return ",".join(key for key in ("readonly", "protected") if item[key]) or "-"


COLUMNS = (
    Column("", "isCurrent", show=lambda item: "*" if item["isCurrent"] else ""),
    Column("CONTEXT", "context"),
    Column("NAMESRV", "namesrv"),
    Column("TLS", "tls", show=lambda item: "-" if item["tls"] is None else str(item["tls"]["verify"])),
    Column("CREDENTIALS", "credentials", is_wide=True),
    Column("NAMESPACE", "namespace", is_wide=True),
    Column("HEADER", "header", is_wide=True),
    Column("TIMEOUT", "timeout", is_wide=True),
    Column("OUTPUT", "output", is_wide=True),
    Column(
        "MAPPED",
        "mapAddress",
        show=lambda item: ",".join(f"{broker}={at}" for broker, at in item["mapAddress"].items()) or "-",
        is_wide=True,
    ),
    Column("FLAGS", "readonly", show=_show_marks),
    Column("PROTECTED", "protected", show=lambda item: "yes" if item["protected"] else "-", is_wide=True),
    Column("DESCRIPTION", "description", gives_way=True),
    Column("ERROR", "error", show=lambda item: item["error"] or "", is_alarm=lambda item: item["error"] is not None),
)
