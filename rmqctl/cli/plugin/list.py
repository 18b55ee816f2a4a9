"""rmqctl plugin list: the available plugins, and what each provides."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.model.failure import Failure

if TYPE_CHECKING:
    from rmqctl.plugin.inventory import Inventory, PluginReport

HELP = """\b
Examples:
  rmqctl plugin list
  rmqctl plugin list --plugin rooms_first -o wide
  rmqctl plugin list -o json | jq '.items[] | select(.state == "FAILED") | {plugin, error}'

Lists installed plugins (entry points of the group "rmqctl"), those in the variable RMQCTL_PLUGINS, and the given files.
Their code is run to find what they provide: codecs for --codec, strategies and site resolvers for whatif allocate,
transforms for dlq replay, checks for diagnose, notifiers for watch. rmqctl's own strategies and checks are not listed.

A plugin that fails keeps its row, and the exit code is 8. If two plugins provide the same name, both fail and other
commands use neither. A plugin may replace a name of rmqctl's own (OVERRIDES, with -o wide)."""


def command(
    ctx: typer.Context,
    plugin: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="FILE", help="Plugin to add. Repeatable. Env: RMQCTL_PLUGINS."),
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.plugin.inventory import take_inventory

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(COLUMNS, invocation.display)
    return render(to_listing(take_inventory(plugin or ())), invocation.display)


def to_listing(inventory: "Inventory") -> Listing:
    """Return the listing of all plugins."""
    failures = [
        Failure(None, f"plugin {report.source.name}", error)
        for report in inventory.reports
        for error in report.errors
        if error not in inventory.conflicts
    ]
    failures += [Failure(None, "plugins", error) for error in inventory.conflicts]
    return Listing(
        kind="PluginList",
        columns=COLUMNS,
        items=[to_item(report) for report in inventory.reports],
        name=lambda item: str(item["plugin"]),
        failures=failures,
        notes=[
            f"{report.source.label} implements no hook: is hookimpl missing?"
            for report in inventory.reports
            if report.hooks == ()
        ],
    )


def to_item(report: "PluginReport") -> dict[str, Any]:
    """Return a plugin as a JSON item."""
    source = report.source
    brought = {key: None if names is None else list(names) for key, names in report.names.items()}
    reasons = {key: "NOT_LOADED" if report.hooks is None else "HOOK_FAILED" for key in brought if brought[key] is None}
    if report.hooks is None:
        reasons["hooks"] = "NOT_LOADED"
    return {
        "plugin": source.name,
        "origin": source.origin.value,
        "distribution": source.distribution,
        "version": source.version,
        "path": source.path,
        "hooks": None if report.hooks is None else list(report.hooks),
        **brought,
        "takesOver": list(report.takes_over),
        "state": "FAILED" if report.errors else "OK",
        "error": " ".join(error.sentence for error in report.errors) or None,
        "reasons": reasons,
    }


def _from(item: Item) -> str:
    if item["origin"] == "BUILT_IN":
        return "built in"
    return item["path"] or " ".join(item[key] for key in ("distribution", "version") if item[key]) or "-"


def _names(key: str) -> Any:
    return lambda item: ",".join(item[key] or ()) or "-"


COLUMNS = (
    Column("PLUGIN", "plugin"),
    Column("FROM", "origin", show=_from, gives_way=True),
    Column("CODECS", "codecs", show=_names("codecs")),
    Column("STRATEGIES", "strategies", show=_names("strategies")),
    Column("RESOLVERS", "siteResolvers", show=_names("siteResolvers")),
    Column("TRANSFORMS", "transforms", show=_names("transforms")),
    Column("CHECKS", "checks", show=_names("checks")),
    Column("NOTIFIERS", "notifiers", show=_names("notifiers"), gives_way=True),
    Column("STATE", "state", is_alarm=lambda item: item["state"] != "OK"),
    Column("HOOKS", "hooks", show=_names("hooks"), is_wide=True),
    Column("OVERRIDES", "takesOver", show=_names("takesOver"), is_wide=True),
    Column("DISTRIBUTION", "distribution", is_wide=True),
    Column("VERSION", "version", is_wide=True),
    Column("PATH", "path", is_wide=True),
    Column("ERROR", "error", is_wide=True),
)
