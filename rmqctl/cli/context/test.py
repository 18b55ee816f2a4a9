"""rmqctl context test: whether contexts work, each with its own settings."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.config.file import Config, read_config
from rmqctl.cli.config.place import config_path
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import NotFoundError, RmqctlError, UsageError
from rmqctl.model.failure import Failure

if TYPE_CHECKING:
    from rmqctl.admin.brokers.servers import ClusterServer

HELP = """\b
Examples:
  rmqctl context test
  rmqctl context test prod dev
  rmqctl context test -o wide                   # one row per server
  rmqctl context test prod && rmqctl --context prod group list

\b
States:
  OK       every name server and every broker answers and grants access
  PARTLY   some do
  FAILED   none does, or the context cannot be used

Without NAME, all contexts are tested in parallel. Each broker is asked for its configuration, with the credentials of
the context."""


def command(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Contexts to test.", show_default=False)
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.results import all_failed

    invocation = Invocation(ctx, needs_cluster=False)
    is_by_server = invocation.display.shows_all
    columns = _SERVER_COLUMNS if is_by_server else _COLUMNS
    choose_columns(columns, invocation.display)
    config = read_config()
    if config is None or not config.contexts:
        raise UsageError(
            f"There are no contexts in {config_path()}.",
            hint="Create one with rmqctl context set NAME namesrv=HOST:9876.",
        )
    wanted = list(dict.fromkeys(names or config.contexts))
    for name in wanted:
        if name not in config.contexts:
            config.context(name)  # raises
    results = asyncio.run(_test_all(invocation, config, wanted))
    listing = to_listing(results)
    if is_by_server:
        rows = [{"context": item["context"], **server} for item in listing.items for server in item["servers"]]
        broken = [
            {"context": item["context"], "status": "FAILED", "error": item["error"]}
            for item in listing.items
            if not item["servers"]
        ]
        listing = Listing(listing.kind, columns, rows + broken, listing.name, failures=listing.failures)
    code = render(listing, invocation.display)
    if all(item["status"] == "FAILED" for item in listing.items):
        return all_failed(failure.error for failure in listing.failures).exit_code
    return code


_Result = tuple[str, "list[ClusterServer]", RmqctlError | None]


async def _test_all(invocation: Invocation, config: Config, names: list[str]) -> list[_Result]:
    return list(await asyncio.gather(*(_test(invocation, config, name) for name in names)))


async def _test(invocation: Invocation, config: Config, name: str) -> _Result:
    from rmqctl.admin.brokers.servers import fetch_servers

    try:
        access = invocation.of(config.context(name)).access()
        async with await access.connect() as client:
            servers = await fetch_servers(client)
            findings = invocation.display.findings
            findings.hints = {**findings.hints, **client.addresses.hints()}
            return name, servers, None
    except RmqctlError as error:
        return name, [], error


def to_listing(results: list[_Result]) -> Listing:
    """Return the listing of contexts, each with its servers."""
    failures = []
    for name, servers, error in results:
        if error is not None:
            failures.append(Failure(None, f"context {name}", error))
        failures += [
            Failure(server.broker_name, f"context {name}", server.error)
            for server in servers
            if server.error is not None
        ]
        if (lacking := _without_brokers(servers)) is not None:
            failures.append(Failure(None, f"context {name}", lacking))
    return Listing(
        kind="ContextTest",
        columns=_COLUMNS,
        items=[_item(*result) for result in results],
        name=lambda item: str(item["context"]),
        failures=failures,
    )


def _without_brokers(servers: "list[ClusterServer]") -> RmqctlError | None:
    """Return the error of a cluster whose name servers answer and list no broker."""
    if not any(server.error is None for server in servers) or any(server.broker_name is not None for server in servers):
        return None
    address = next(server.probe.address for server in servers if server.error is None)
    sentence = f"No broker has registered with name server {address} (yet)."
    return NotFoundError("Broker", "", hint="Wait, or check namesrvAddr of the brokers.").reworded(sentence)


def _item(name: str, servers: "list[ClusterServer]", error: RmqctlError | None) -> dict[str, Any]:
    name_servers = [server for server in servers if server.broker_name is None]
    brokers = [server for server in servers if server.broker_name is not None]
    reached = [server for server in servers if server.error is None]
    first = error or next((server.error for server in servers if server.error is not None), None)
    first = first or _without_brokers(servers)
    usable = any(server.error is None for server in name_servers) and any(server.error is None for server in brokers)
    status = "OK" if usable and len(reached) == len(servers) else "PARTLY" if reached else "FAILED"
    rtts = [server.probe.rtt_ms for server in reached if server.probe.rtt_ms is not None]
    return {
        "context": name,
        "status": status,
        "nameServerCount": len(name_servers),
        "nameServersOk": sum(server.error is None for server in name_servers),
        "brokerCount": len(brokers),
        "brokersOk": sum(server.error is None for server in brokers),
        "rttMs": max(rtts, default=None),
        "versions": sorted({server.probe.version for server in brokers if server.probe.version is not None}),
        "error": None if first is None else first.name,
        "message": None if first is None else first.sentence,
        "servers": [_server_item(server) for server in servers],
        "reasons": {} if rtts else {"rttMs": "NOBODY_ANSWERED"},
    }


def _server_item(server: "ClusterServer") -> dict[str, Any]:
    probe = server.probe
    reasons = {key: "NO_ANSWER" for key, value in (("kind", probe.kind), ("rttMs", probe.rtt_ms)) if value is None}
    if probe.version is None:
        reasons["version"] = "NO_ANSWER" if probe.rtt_ms is None else "NOT_AUTHORISED"
    return {
        "address": probe.address,
        "kind": None if probe.kind is None else str(probe.kind),
        "brokerName": server.broker_name,
        "brokerId": server.broker_id,
        "status": "OK" if server.error is None else "FAILED",
        "rttMs": probe.rtt_ms,
        "version": probe.version,
        "error": None if server.error is None else server.error.name,
        "message": None if server.error is None else server.error.sentence,
        "reasons": reasons,
    }


def _show_rtt(item: Item) -> str:
    return "-" if item.get("rttMs") is None else f"{item['rttMs']:.1f}"


def _show_error(item: Item) -> str:
    return item.get("error") or ""


_COLUMNS = (
    Column("CONTEXT", "context"),
    Column("STATUS", "status", is_alarm=lambda item: item["status"] != "OK"),
    Column("NAMESRV", "nameServersOk", show=lambda item: f"{item['nameServersOk']}/{item['nameServerCount']}"),
    Column("BROKERS", "brokersOk", show=lambda item: f"{item['brokersOk']}/{item['brokerCount']}"),
    Column("RTT-MS", "rttMs", show=_show_rtt, is_number=True),
    Column("VERSION", "versions", show=lambda item: ",".join(item["versions"]) or "-"),
    Column("ERROR", "error", show=_show_error),
)
_SERVER_COLUMNS = (
    Column("CONTEXT", "context"),
    Column("SERVER", "address"),
    Column("KIND", "kind"),
    Column("BROKER", "brokerName"),
    Column("ID", "brokerId", is_number=True),
    Column("STATUS", "status", is_alarm=lambda item: item["status"] != "OK"),
    Column("RTT-MS", "rttMs", show=_show_rtt, is_number=True),
    Column("VERSION", "version"),
    Column("ERROR", "error", show=_show_error),
)
