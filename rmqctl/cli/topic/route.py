"""rmqctl topic route: where a topic's queues are, as each name server reports it."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.totals import total_items, total_words
from rmqctl.model.route import MASTER_ID
from rmqctl.model.topic import TOPIC_FINDINGS, TopicFinding
from rmqctl.rules.topics import permission_words
from rmqctl.rules.totals import total
from rmqctl.text.words import counted, listed

if TYPE_CHECKING:
    from rmqctl.admin.topics.route import RoutePart, RouteReport

HELP = """\b
Examples:
  rmqctl topic route orders
  rmqctl topic route orders -n 'ns1:9876;ns2:9876'
  rmqctl topic route orders -o json | jq '.items[] | .brokerAddrs'

Every name server is asked. Different answers are shown in separate rows, with the name servers that report them; a
client uses the answer of any one of them. The brokers are asked too: FINDINGS shows where they and the route disagree.

For a static topic, STATIC lists the logical queues; READ and WRITE count the physical queues behind them."""


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to show.", show_default=False)],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.topics.route import fetch_route_report

    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    wanted = invocation.full_name(topic)
    report = invocation.ask(lambda client: fetch_route_report(client, wanted))
    return render(to_listing(report), invocation.display)


def to_listing(report: "RouteReport") -> Listing:
    """Return the listing of a topic's route."""
    return Listing(
        kind="TopicRoute",
        # Who reports a row matters only if name servers differ.
        columns=[
            replace(column, is_wide=report.is_agreed) if column.key == "nameServers" else column for column in _COLUMNS
        ],
        items=[_item(part) for part in report.parts],
        name=lambda item: str(item["brokerName"]),
        failures=report.failures,
        extra={
            "topic": report.topic,
            "nameServers": list(report.asked),
            "nameServersWithoutRoute": list(report.without_route),
            "nameServersAgree": report.is_agreed,
            "orderTopicConf": dict(report.order_confs),
            "orderTopicConfInRoute": list(report.order_in_route),
            "isStatic": report.is_static,
        },
        notes=_notes(report),
        empty=f"The route of {report.topic} has no queues.",
    )


def _item(part: "RoutePart") -> dict[str, Any]:
    addresses = dict(sorted(part.broker.addresses.items())) if part.broker is not None else {}
    reasons: dict[str, str] = {}
    if part.broker is None:
        reasons["clusterName"] = "NO_ADDRESS"
    if MASTER_ID not in addresses:
        reasons["masterAddr"] = "NO_MASTER" if addresses else "NO_ADDRESS"
    if part.mapping is None:
        reasons["logicalQueueIds"] = "NOT_STATIC"
    return {
        "brokerName": part.data.broker_name,
        "clusterName": part.broker.cluster if part.broker is not None else None,
        "readQueueNums": part.data.read_queue_count,
        "writeQueueNums": part.data.write_queue_count,
        "perm": part.data.perm,
        "brokerAddrs": {str(broker_id): address for broker_id, address in addresses.items()},
        "masterAddr": addresses.get(MASTER_ID),
        "slaveAddrs": [address for broker_id, address in addresses.items() if broker_id != MASTER_ID],
        "logicalQueueIds": sorted(part.mapping.queue_ids) if part.mapping is not None else None,
        "nameServers": list(part.name_servers),
        "findings": list(part.findings),
        "reasons": reasons,
    }


def _notes(report: "RouteReport") -> list[str]:
    notes = []
    # Clients get no queues of a broker that no route names.
    routed = [part for part in report.parts if TopicFinding.NOT_IN_ROUTE not in part.findings]
    if report.is_agreed:
        totals = total_items(
            {
                "read": total(((part.data.read_queue_count, "") for part in routed), hidden=report.hidden),
                "write": total(((part.data.write_queue_count, "") for part in routed), hidden=report.hidden),
            }
        )
        text = f"{total_words(totals, 'read', 'queue')} to read, {total_words(totals, 'write')} to write"
        missing = [part.data.broker_name for part in routed if not part.name_servers]
        lost = f", including those of {listed(missing)}, which no name server lists" if missing else ""
        notes.append(f"Topic {report.topic}: {text}{lost}.")
    else:
        notes.append(f"Name servers differ about topic {report.topic}: each row shows the name servers that report it.")
    notes += [f"Name server {address} has no route for {report.topic}." for address in report.without_route]
    for address, conf in report.order_confs.items():
        if conf is not None:
            unseen = "" if address in report.order_in_route else "; clients do not receive it"
            notes.append(f"Order configuration at {address}: {conf}{unseen}.")
    if report.is_static:
        logical = max(
            (part.mapping.logical_queue_count for part in report.parts if part.mapping is not None), default=0
        )
        notes.append(f"It is a static topic of {counted(logical, 'logical queue')}; clients see only those.")
    found = {finding for part in report.parts for finding in part.findings}
    return notes + [f"{finding}: {TOPIC_FINDINGS[finding]}." for finding in sorted(found)]


def _show_static(item: Item) -> str:
    return "-" if item["logicalQueueIds"] is None else ",".join(map(str, item["logicalQueueIds"]))


_COLUMNS = (
    Column("CLUSTER", "clusterName", gives_way=True),
    Column("BROKER", "brokerName"),
    Column(
        "READ",
        "readQueueNums",
        is_number=True,
        is_alarm=lambda item: item["readQueueNums"] != item["writeQueueNums"],
    ),
    Column(
        "WRITE",
        "writeQueueNums",
        is_number=True,
        is_alarm=lambda item: item["readQueueNums"] != item["writeQueueNums"],
    ),
    Column(
        "PERM",
        "perm",
        show=lambda item: permission_words(item["perm"]),
        is_alarm=lambda item: item["perm"] not in (6, 7),
    ),
    Column("MASTER", "masterAddr", is_alarm=lambda item: item["masterAddr"] is None),
    Column("SLAVES", "slaveAddrs", show=lambda item: ",".join(item["slaveAddrs"]) or "-", gives_way=True),
    Column("STATIC", "logicalQueueIds", show=_show_static, is_wide=True),
    Column("REPORTED-BY", "nameServers", show=lambda item: ",".join(item["nameServers"])),
    Column(
        "FINDINGS",
        "findings",
        show=lambda item: ",".join(item["findings"]),
        is_alarm=lambda item: bool(item["findings"]),
    ),
)
