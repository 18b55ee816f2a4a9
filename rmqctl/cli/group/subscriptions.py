"""rmqctl group subscriptions: show the filters of a group, as reported by each broker and each client."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Any

import typer

from rmqctl.cli.arguments import Group
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.model.group import GroupState, SubscriptionView
from rmqctl.text.times import time_fields

from .members import no_members

if TYPE_CHECKING:
    from rmqctl.admin.groups.members import GroupMembers

HELP = """\b
Examples:
  rmqctl group subscriptions my-group
  rmqctl group subscriptions my-group -o wide       # also the clients of each filter
  rmqctl group subscriptions my-group --where agrees=false

\b
Columns:
  BROKERS  brokers that use the filter, of those with members; a broker keeps
           one filter per topic, the newest
  CLIENTS  clients that subscribe with the filter, of those that answered
  VERSION  when the newest of these filters was set, by the client's clock
  AGREE    no: a client or broker has another filter for the topic, or none;
           some members lose messages

The group's retry topic is left out, because every client subscribes to it."""


def command(
    ctx: typer.Context,
    group: Group,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.groups.members import fetch_group_members

    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    members = invocation.ask(lambda client: fetch_group_members(client, invocation.full_name(group)))
    return render(to_listing(members), invocation.display)


def to_listing(members: "GroupMembers") -> Listing:
    """Make the listing of a group's subscriptions."""
    from rmqctl.diagnose.diagnosis import sentences
    from rmqctl.diagnose.group_facts import facts_of_members
    from rmqctl.diagnose.table import CHECKS
    from rmqctl.rules.group_views import subscription_views

    views = subscription_views(members.group, members.connections, members.running.ok)
    items = [subscription_item(view) for view in views]
    return Listing(
        kind="SubscriptionList",
        columns=COLUMNS,
        items=items,
        name=lambda item: f"{item['topic']}:{item['subString']}",
        failures=members.failures,
        extra={
            "group": members.group,
            "state": members.state,
            "stateReason": None if members.unseen_reason is None else str(members.unseen_reason),
        },
        notes=sentences(facts_of_members(members), CHECKS, "SUB"),
        empty=_nothing(members),
    )


def _nothing(members: "GroupMembers") -> str:
    if members.state is GroupState.ONLINE:
        return f"The members of {members.group} subscribe to no topic except its retry topic."
    return no_members(members.group, members.unseen_reason)


def subscription_item(view: SubscriptionView) -> dict[str, Any]:
    """Make the item of one filter of one topic."""
    subscription = view.subscription
    return {
        "topic": subscription.topic,
        "expressionType": subscription.expression_type,
        "subString": subscription.expression,
        "tagsSet": sorted(subscription.tags),
        **time_fields("subVersion", subscription.version_ms),
        "brokerNames": list(view.broker_names),
        "clientCount": len(view.client_ids),
        "clientIds": list(view.client_ids),
        "lackingBrokerNames": list(view.lacking_brokers),
        "lackingClientIds": list(view.lacking_clients),
        "agrees": view.agrees,
        "reasons": {} if view.agrees is not None else {"agrees": "CLIENT_SILENT"},
    }


def _names(key: str) -> Any:
    return lambda item: ",".join(item[key]) or "-"


def _agree(item: Item) -> str:
    return {True: "yes", False: "no", None: "-"}[item["agrees"]]


COLUMNS = (
    Column("TOPIC", "topic"),
    Column("TYPE", "expressionType"),
    Column("EXPRESSION", "subString"),
    Column("BROKERS", "brokerNames", show=lambda item: str(len(item["brokerNames"])), is_number=True),
    Column("CLIENTS", "clientCount", is_number=True),
    Column("VERSION", "subVersion", is_time=True, gives_way=True),
    Column("AGREE", "agrees", show=_agree, is_alarm=lambda item: item["agrees"] is False),
    Column("NAMED-BY", "clientIds", show=_names("clientIds"), is_wide=True),
    Column("NOT-NAMED-BY", "lackingClientIds", show=_names("lackingClientIds"), is_wide=True),
    Column("NOT-AT", "lackingBrokerNames", show=_names("lackingBrokerNames"), is_wide=True),
)
