"""rmqctl topic producers: the producers that are connected to the brokers of a topic."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.connections import show_hosts, show_reported_by
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.model.group import Proxies
from rmqctl.model.names import PROXY_GROUP
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted, listed

if TYPE_CHECKING:
    from rmqctl.admin.groups.producers import ProducerView, TopicProducers

HELP = """\b
Examples:
  rmqctl topic producers orders
  rmqctl topic producers orders --group order-service
  rmqctl topic producers orders --where brokerNames=broker-b     # connected to broker-b
  rmqctl topic producers orders -o json | jq '.items[] | {producerGroup, clientAddrs}'

\b
Columns:
  HOST            address of the client; it has one connection per broker
  REPORTED-BY     brokers that see the producer, of the brokers of the topic;
                  ? if a broker did not answer
  LAST-HEARTBEAT  newest heartbeat, by the broker's clock; clients send one
                  every 30 s, and brokers drop a client after 2 minutes

Brokers know which producers are connected, but not which topics they send to. A producer that has sent to the topic is
connected to all of its brokers within 30 s. A producer that is connected to all of them may send only to other topics.

Not listed are producers that have not sent a message yet, gRPC producers behind a proxy, and clients that send without
a heartbeat, for example rmqctl itself. The clients of RocketMQ's own producer groups are shown with --system: every
Java consumer and every mqadmin belongs to CLIENT_INNER_PRODUCER."""


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to show.", show_default=False)],
    group: Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Only this producer group.")] = None,
    system: Annotated[bool, typer.Option("--system", help="Show RocketMQ's own producer groups as well.")] = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.groups.producers import fetch_topic_producers

    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    name, only = invocation.full_name(topic), None if group is None else invocation.full_name(group)
    found = invocation.ask(lambda client: fetch_topic_producers(client, name, only, with_system=system))
    return render(to_listing(found), invocation.display)


def to_listing(found: "TopicProducers") -> Listing:
    """Make the listing of a topic's producers."""
    return Listing(
        kind="ProducerList",
        columns=_COLUMNS,
        items=[_item(view) for view in found.producers],
        name=lambda item: f"{item['producerGroup']} {item['clientId']}",
        failures=found.failures,
        extra={
            "topic": found.topic,
            "producerGroup": found.group,
            "brokerNames": list(found.broker_names),
            "unseenReason": None if found.unseen_reason is None else str(found.unseen_reason),
        },
        notes=_notes(found),
        empty=_empty(found),
    )


def _item(view: "ProducerView") -> dict[str, Any]:
    from rmqctl.protocol.versions import plain_version, version_name

    every = [each for at_broker in view.connections.values() for each in at_broker]
    return {
        "producerGroup": view.group,
        "clientId": view.client_id,
        "language": ",".join(sorted({each.language for each in every})),
        "clientVersion": ",".join(plain_version(version_name(number)) for number in sorted({e.version for e in every})),
        "clientAddrs": {name: sorted(each.client_address for each in at) for name, at in view.connections.items()},
        "brokerNames": list(view.connections),
        "unseenAt": list(view.unseen_at),
        "untoldAt": list(view.untold_at),
        **time_fields("lastUpdateTimestamp", view.heard_at_ms),
        "reasons": {} if view.heard_at_ms is not None else {"lastUpdateTimestamp": "BROKER_TOO_OLD"},
    }


def _notes(found: "TopicProducers") -> list[str]:
    notes = []
    if found.producers:
        notes.append(f"Brokers do not know where producers send: some may use only other topics than {found.topic}.")
    if found.proxies is Proxies.PRESENT:
        notes.append("Proxies are connected to this cluster; brokers do not see producers that connect through them.")
    if found.proxies is Proxies.REFUSED:
        right = f"Get on Group:{PROXY_GROUP}"
        notes.append(f"There may be producers behind a proxy: to see whether proxies are connected needs {right}.")
    if found.closed_brokers:
        notes.append(f"Producers cannot send to {found.topic} on {listed(found.closed_brokers)}: no write permission.")
    if found.hidden_system_count:
        clients = counted(found.hidden_system_count, "client", "is")
        notes.append(f"{clients} only in RocketMQ's own producer groups, and not shown (--system).")
    return notes


def _empty(found: "TopicProducers") -> str:
    """Return the sentence for a topic without a producer that was seen."""
    producer = "a producer" if found.group is None else f"a producer of group {found.group}"
    if found.failures:
        return f"No broker of {found.topic} reports {producer}, but not every broker answered."
    return f"No broker of {found.topic} sees {producer}."


_COLUMNS = (
    Column("GROUP", "producerGroup", is_kept=True),
    Column("CLIENT", "clientId", is_kept=True),
    Column("HOST", "clientAddrs", show=show_hosts, gives_way=1),
    Column("LANGUAGE", "language", gives_way=1),
    Column("VERSION", "clientVersion", gives_way=1),
    Column("REPORTED-BY", "brokerNames", show=show_reported_by),
    Column("UNSEEN-AT", "unseenAt", show=lambda item: ",".join(item["unseenAt"]) or "-", is_wide=True),
    Column("LAST-HEARTBEAT", "lastUpdateTimestamp", is_time=True, gives_way=2),
)
