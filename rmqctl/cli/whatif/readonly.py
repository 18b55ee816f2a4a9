"""rmqctl whatif readonly: show what happens to failed messages when a broker loses its write permission."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import UsageError
from rmqctl.text.names import one_of

if TYPE_CHECKING:
    from rmqctl.whatif.readonly import Readonly, ReadonlyEffect, RemovalMethod

HELP = """\b
Examples:
  rmqctl whatif readonly --broker broker-a
  rmqctl whatif readonly --broker broker-a 'payments-*'
  rmqctl whatif readonly --broker broker-a --where verdict=BLOCKS -o name
  rmqctl whatif readonly --broker broker-a --by wipeWritePerm
  rmqctl whatif readonly --broker broker-a -o json | jq '.unwritableTopics'

\b
Verdicts:
  BLOCKS         no broker would store a failed message of this broker: its
                 client retries every 5 s (in order: every second) without
                 end, and the queue's offset does not advance
  FINDS_ANOTHER  it would be stored in the retry topic on RETRY-AT; in order,
                 past the maximum of retries, in the dead-letter topic
  NOT_AFFECTED   the group sends nothing to this broker: BROADCASTING, POP,
                 PULL, ORDERLY_ENDLESS (no maximum of retries: a failed
                 message blocks its queue anyway), or SEND_BACK_ACCEPTED
  UNKNOWN        WHY shows what is unknown

\b
Two ways to remove the permission (--by):
  brokerPermission  mqadmin updateBrokerConfig -k brokerPermission -v 4: the
                    broker rejects messages that are sent back
                    (CONSUMER_SEND_MSG_BACK), and name servers no longer route
                    producers to it
  wipeWritePerm     mqadmin wipeWritePerm: only name servers change their
                    routes; the broker still accepts messages that are sent
                    back. Only messages that clients send past the maximum, in
                    order, need another broker

Clients notice either change when they next ask for routes, every 30 s; until then, the broker still stores the messages
that they send to it. The command checks the groups that consume topics of the broker and have offsets or members there.
Nothing is changed."""


def command(
    ctx: typer.Context,
    broker: Annotated[
        str, typer.Option("--broker", metavar="NAME", help="The broker's name, as in cluster list.", show_default=False)
    ],
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP]...", help="Groups to check; * and ? are wildcards.", show_default=False),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="WAY", help="brokerPermission or wipeWritePerm. [default: brokerPermission]"),
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.whatif.readonly import RemovalMethod
    from rmqctl.whatif.readonly_live import fetch_readonly

    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    way = RemovalMethod.BROKER_PERMISSION if by is None else removal_method(by)
    names = [invocation.full_name(pattern) for pattern in patterns or ()]
    if not names and invocation.full_name("*") != "*":
        names = [invocation.full_name("*")]
    found = invocation.ask(lambda client: fetch_readonly(client, broker, names, way=way))
    return render(to_listing(found), invocation.display)


def removal_method(by: str) -> "RemovalMethod":
    """Return the value of --by. Raises UsageError."""
    from rmqctl.whatif.readonly import RemovalMethod

    try:
        return RemovalMethod(by)
    except ValueError:
        raise UsageError(f"Unknown value for --by: {by!r}.", hint=one_of(RemovalMethod)) from None


def to_listing(found: "Readonly") -> Listing:
    """Make the listing of the groups, the worst first."""
    name = found.broker.broker_name
    return Listing(
        kind="ReadonlyEffect",
        columns=COLUMNS,
        items=[_item(effect) for effect in found.effects],
        name=lambda item: str(item["group"]),
        failures=found.failures,
        extra={
            "brokerName": name,
            "cluster": found.broker.cluster,
            "by": str(found.way),
            "isReadOnly": found.is_read_only,
            "unwritableTopics": list(found.unwritable_topics),
            "wipedTopics": list(found.wiped_topics),
            "concerns": [{"code": concern.code, "text": concern.text} for concern in found.concerns],
        },
        notes=[concern.text for concern in found.concerns],
        empty=f"No group consumes topics of {name}.",
    )


def _item(effect: "ReadonlyEffect") -> dict[str, Any]:
    view, places = effect.view, effect.view.places
    item: dict[str, Any] = {
        "group": view.group,
        "state": str(view.state),
        "memberCount": view.member_count,
        "consumeType": view.consume_type,
        "messageModel": view.message_model,
        "modes": sorted(str(mode) for mode in view.modes),
        "queueCount": sum(view.topics.values()),
        "topics": [{"topic": topic, "queueCount": count} for topic, count in view.topics.items()],
        "verdict": str(effect.verdict),
        "why": str(effect.why),
        "retryBrokers": None if places.reason is not None else list(places.writable),
        "silentRetryBrokers": list(places.unheard),
    }
    reasons = {}
    if item["memberCount"] is None:
        reasons["memberCount"] = str(view.unseen_reason)
    for key in ("consumeType", "messageModel"):
        if item[key] is None:
            reasons[key] = str(view.unseen_reason or "NO_MEMBERS")
    if view.silent_reason is not None:
        reasons["modes"] = str(view.silent_reason)
    if item["retryBrokers"] is None:
        reasons["retryBrokers"] = str(places.reason)
    return {**item, "reasons": reasons}


def _words(key: str, *, nothing: str) -> Any:
    return lambda item: "-" if item[key] is None else ",".join(item[key]) or nothing


def _modes(item: Item) -> str:
    return "+".join(mode.lower().replace("_", "-") for mode in item["modes"]) or "-"


COLUMNS = (
    Column("GROUP", "group"),
    Column("STATE", "state"),
    Column("MEMBERS", "memberCount", is_number=True, is_wide=True),
    Column("CONSUMES", "modes", show=_modes),
    Column("QUEUES", "queueCount", is_number=True),
    Column("VERDICT", "verdict", is_alarm=lambda item: item["verdict"] == "BLOCKS"),
    Column("WHY", "why", is_sentence=True),
    Column(
        "RETRY-AT",
        "retryBrokers",
        show=lambda item: "-" if item["verdict"] == "NOT_AFFECTED" else _words("retryBrokers", nothing="nowhere")(item),
    ),
    Column("TOPICS", "topics", show=lambda item: ",".join(each["topic"] for each in item["topics"]), is_wide=True),
)
