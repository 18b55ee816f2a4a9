"""rmqctl group list: list all groups of the cluster."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.admin.groups.rules.attention import NOT_ASKED, Mark, Part, mark
from rmqctl.cli.arguments import AnyGroups
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns
from rmqctl.cli.output.totals import show_total
from rmqctl.cli.repeat import Repetition
from rmqctl.rules.lite_topics import NOT_LITE
from rmqctl.text.durations import short_duration
from rmqctl.text.words import agreeing, counted, listed

if TYPE_CHECKING:
    from rmqctl.admin.groups.list import GroupList
    from rmqctl.admin.groups.summary import GroupSummary
    from rmqctl.client.core import Client
    from rmqctl.model.failure import Failure

HELP = """\b
Examples:
  rmqctl group list
  rmqctl group list 'payments-*'
  rmqctl group list --only-with-lag --sort -lag --watch
  rmqctl group list --where state=EMPTY --where 'lag>0'
  rmqctl group list -o json | jq '.items[] | select(.state == "EMPTY" and .lag > 0)'

\b
States:
  ONLINE    a broker sees members
  EMPTY     no broker sees a member
  UNKNOWN   no broker sees a member, but not every broker answered, or proxies
            are connected: brokers do not see the clients behind a proxy

\b
Columns:
  LAG       messages not yet consumed, before the group's filter, in queues
            with a stored offset
  LOST      messages that were deleted before the group read them
  TIME-LAG  age of the oldest unread message; measured only for the groups
            with the largest lag
  TYPE      how members consume: push, pull or pop; lite: the group consumes
            lite topics of one topic (RIP-83)
  !         ! findings: the notes below the table list them, with the codes of
              rmqctl diagnose
            ? no finding so far, but its members were not asked, or a part of
              its data could not be read
            - no finding, and everything was read

Groups are read from the brokers' own tables, so groups without a retry topic are listed too."""


def command(
    ctx: typer.Context,
    patterns: AnyGroups = None,
    only_with_lag: Annotated[
        bool, typer.Option("--only-with-lag", help="Show only groups with lag, or with unknown lag.")
    ] = False,
    system: Annotated[bool, typer.Option("--system", help="Show RocketMQ's system groups as well.")] = False,
    *,
    repetition: Repetition,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    import asyncio

    from rmqctl.admin.brokers.servers import fetch_silent_slaves
    from rmqctl.admin.groups.list import fetch_group_list

    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    names = [invocation.full_name(pattern) for pattern in patterns or ()]
    if not names and invocation.full_name("*") != "*":
        names = [invocation.full_name("*")]

    async def fetch(client: "Client") -> tuple["GroupList", list["Failure"]]:
        return await asyncio.gather(fetch_group_list(client, names, with_system=system), fetch_silent_slaves(client))

    def read() -> Listing:
        groups, slaves = invocation.ask(fetch)
        is_whole = not names and not groups.failures
        invocation.remember("groups", (group.group for group in groups.groups), is_whole=is_whole)
        return to_listing(groups, only_with_lag=only_with_lag, slaves=slaves)

    return repetition.show(invocation, read)


def to_listing(groups: "GroupList", *, only_with_lag: bool = False, slaves: Sequence["Failure"] = ()) -> Listing:
    """Make the listing of all groups. It is complete without `slaves` that do not answer: their masters know all."""
    items = [_item(group, groups.at_ms) for group in groups.groups if group.lag != 0 or not only_with_lag]
    notes = []
    if len(items) < len(groups.groups):
        count = len(groups.groups) - len(items)
        notes.append(f"{counted(count, 'group')} without lag {agreeing(count, 'is')} not shown (--only-with-lag).")
    if groups.hidden_system_count:
        count = groups.hidden_system_count
        notes.append(f"{counted(count, 'system group', 'is')} not shown (--system).")
    unasked_count = sum(item["reasons"].get("timeLagMs") == NOT_ASKED for item in items)
    if unasked_count:
        groups_words = counted(unasked_count, "group")
        notes.append(f"TIME-LAG was not measured for {groups_words}: only for the groups with the largest lag.")
    return Listing(
        kind="GroupList",
        columns=_COLUMNS,
        items=items,
        name=lambda item: str(item["group"]),
        failures=groups.failures,
        notes=notes,
        warnings=[f"warning: {each.what} of {each.broker_name}: {each.error.sentence}" for each in slaves],
        row_notes=_attention_notes,
        empty="No group is behind." if only_with_lag and groups.groups else "No consumer groups.",
    )


def _attention_notes(items: Sequence[Item]) -> list[str]:
    """Return a sentence for each code of `attention`, with the groups that have it."""
    from rmqctl.diagnose.table import CHECKS

    having = {check: [item["group"] for item in items if check.code in item["attention"]] for check in CHECKS}
    notes = [f"! {check.code} ({listed(names)}): {check.title}." for check, names in having.items() if names]
    if notes:
        notes.append("For details: rmqctl diagnose GROUP. For what to do: rmqctl explain CODE.")
    open_items = [item for item in items if _mark(item) == Mark.UNCHECKED]
    if open_items:
        reasons = {(each["part"], each["reason"] == NOT_ASKED) for item in open_items for each in item["unchecked"]}
        why = [words for (part, is_choice), words in _UNCHECKED.items() if (part, is_choice) in reasons]
        notes.append(
            f"? ({counted(len(open_items), 'group')}): no finding so far, but {', '.join(why)}: "
            "rmqctl diagnose GROUP or rmqctl group describe GROUP."
        )
    return notes


def _mark(item: Item) -> Mark:
    return mark(item["attention"], item["unchecked"])


# What was not checked, and whether the command did not ask for it.
_UNCHECKED = {
    (Part.MEMBERS, True): "members are not asked here",
    (Part.MEMBERS, False): "it is unknown whether there are members",
    (Part.BROKERS, False): "a part of the brokers' tables is missing",
    (Part.DEAD_LETTERS, True): "dead letters of some groups are not counted here",
}


def _item(group: "GroupSummary", at_ms: int) -> dict[str, Any]:
    from rmqctl.diagnose.diagnosis import at_least, diagnose
    from rmqctl.diagnose.finding import Severity
    from rmqctl.diagnose.group_facts import facts_of_summary
    from rmqctl.diagnose.table import CHECKS

    findings = filter(at_least(Severity.WARNING), diagnose(facts_of_summary(group, at_ms), CHECKS).findings)
    return {
        "group": group.group,
        "state": group.state,
        "memberCount": group.member_count,
        "lag": group.lag,
        "lagAtLeast": group.lag_at_least,
        "lost": group.lost,
        "lostAtLeast": group.lost_at_least,
        "timeLagMs": group.time_lag_ms,
        "attention": list(dict.fromkeys(finding.code for finding in findings)),
        "unchecked": [{"part": str(part), "reason": reason} for part, reason in group.unchecked.items()],
        "unreadableMessageCount": group.unreadable_count,
        "topicCount": len(group.topics),
        "topics": list(group.topics),
        "liteBindTopic": group.lite_bind_topic,
        "consumeType": group.consume_type,
        "messageModel": group.message_model,
        "clientVersion": group.client_version,
        "brokerNames": list(group.broker_names),
        "reasons": {name: str(reason) for name, reason in group.reasons.items()}
        | ({} if group.is_age_asked or group.reasons.get("lag") else {"timeLagMs": NOT_ASKED})
        | ({} if group.lite_bind_topic is not None else {"liteBindTopic": NOT_LITE}),
    }


# What people call RocketMQ's ConsumeTypes.
_TYPES = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop"}


def _show_type(item: Item) -> str:
    if item["liteBindTopic"] is not None:
        return "lite"
    return "-" if item["consumeType"] is None else _TYPES.get(item["consumeType"], str(item["consumeType"]))


def _show_model(item: Item) -> str:
    return "-" if item["messageModel"] is None else str(item["messageModel"]).lower()


def _show_age(item: Item) -> str:
    return "-" if item["timeLagMs"] is None else short_duration(item["timeLagMs"])


_COLUMNS = (
    Column("GROUP", "group"),
    Column("STATE", "state", is_alarm=lambda item: item["state"] != "ONLINE" and bool(item["lagAtLeast"])),
    Column("MEMBERS", "memberCount", is_number=True),
    Column("LAG", "lag", show=show_total("lag"), is_number=True, is_alarm=lambda item: bool(item["lagAtLeast"])),
    Column(
        "LOST",
        "lost",
        show=show_total("lost"),
        is_number=True,
        is_alarm=lambda item: bool(item["lostAtLeast"]),
    ),
    Column("TIME-LAG", "timeLagMs", show=_show_age, is_number=True),
    Column("!", "attention", show=_mark, is_alarm=lambda item: bool(item["attention"])),
    Column("TOPICS", "topicCount", is_number=True, gives_way=True),
    Column("TYPE", "consumeType", show=_show_type, gives_way=True),
    Column("MODEL", "messageModel", show=_show_model, gives_way=True),
    Column("CLIENT", "clientVersion", is_wide=True),
    Column("BROKERS", "brokerNames", show=lambda item: ",".join(item["brokerNames"]) or "-", is_wide=True),
)
