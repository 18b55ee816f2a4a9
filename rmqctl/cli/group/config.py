"""rmqctl group config: show a group's configuration on each broker."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Any

import typer

from rmqctl.cli.arguments import Group
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render

if TYPE_CHECKING:
    from rmqctl.admin.groups.config import GroupConfigs
    from rmqctl.model.group import GroupConfig

HELP = """\b
Examples:
  rmqctl group config my-group
  rmqctl group config my-group -o wide
  rmqctl group config my-group -o json | jq '.items[] | {brokerName, differingFields}'

\b
Columns:
  CONSUME       whether members may pull
  BROADCAST     whether members in broadcasting mode may pull
  RETRY-QUEUES  queues of the retry topic; with 0, failed messages are
                acknowledged and lost
  RETRIES       retries before a message becomes a dead letter, unless the
                client sets a limit
  DIFFERS       settings that are not the same on all brokers

Each broker has its own copy. A broker without one creates it with the defaults when a client connects."""


def command(
    ctx: typer.Context,
    group: Group,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.groups.config import fetch_group_configs

    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    configs = invocation.ask(lambda client: fetch_group_configs(client, invocation.full_name(group)))
    return render(to_listing(configs), invocation.display)


def to_listing(configs: "GroupConfigs") -> Listing:
    """Make the listing of a group's configurations."""
    items = config_items(configs.configs)
    without = [item["brokerName"] for item in items if not item["isConfigured"]]
    notes = [f"{name} has no configuration of this group." for name in without]
    return Listing(
        kind="GroupConfigList",
        columns=COLUMNS,
        items=items,
        name=lambda item: str(item["brokerName"]),
        failures=configs.failures,
        extra={"group": configs.group},
        notes=notes,
    )


def config_items(configs: Any) -> list[dict[str, Any]]:
    """Make one item per broker; all its settings are under `settings`, by RocketMQ's own names."""
    from rmqctl.rules.group_views import differing_fields

    known = [config for config in configs.values() if config is not None]
    differing = list(differing_fields(known))
    items = []
    for name, config in sorted(configs.items()):
        settings = {} if config is None else {**config.fields}
        shown: dict[str, Any] = {key: settings[key] for key, kind in _SHOWN.items() if type(settings.get(key)) is kind}
        if config is not None:
            shown["forbiddenTopics"] = list(config.forbidden_topics)
        items.append({
            "brokerName": name,
            "isConfigured": config is not None,
            **{key: shown.get(key) for key in _SHOWN},
            "forbiddenTopics": shown.get("forbiddenTopics"),
            "differingFields": differing if config is not None else [],
            "settings": settings,
            "reasons": {key: _missing(key, config) for key in (*_SHOWN, "forbiddenTopics") if key not in shown},
        })  # fmt: skip
    return items


def _missing(key: str, config: "GroupConfig | None") -> str:
    if config is None:
        return "NOT_CONFIGURED"
    return "NOT_REPORTED" if key in config.fields else "BROKER_TOO_OLD"


_SHOWN = {
    "consumeEnable": bool,
    "consumeBroadcastEnable": bool,
    "consumeFromMinEnable": bool,
    "consumeMessageOrderly": bool,
    "retryQueueNums": int,
    "retryMaxTimes": int,
    "notifyConsumerIdsChangedEnable": bool,
    "brokerId": int,
    "whichBrokerWhenConsumeSlowly": int,
    "consumeTimeoutMinute": int,
}


def _flag(key: str) -> Any:
    return lambda item: "-" if item[key] is None else "yes" if item[key] else "no"


def _differs(key: str) -> Any:
    return lambda item: key in item["differingFields"]


def _loses_retries(item: Item) -> bool:
    return _differs("retryQueueNums")(item) or (item["retryQueueNums"] is not None and item["retryQueueNums"] <= 0)


def _names(key: str) -> Any:
    return lambda item: ",".join(item[key] or ()) or "-"


COLUMNS = (
    Column("BROKER", "brokerName"),
    Column(
        "CONSUME", "consumeEnable", show=_flag("consumeEnable"), is_alarm=lambda item: item["consumeEnable"] is False
    ),
    Column(
        "BROADCAST",
        "consumeBroadcastEnable",
        show=_flag("consumeBroadcastEnable"),
        is_alarm=_differs("consumeBroadcastEnable"),
    ),
    Column("ORDERLY", "consumeMessageOrderly", show=_flag("consumeMessageOrderly"), is_wide=True),
    Column("RETRY-QUEUES", "retryQueueNums", is_number=True, is_alarm=_loses_retries),
    Column("RETRIES", "retryMaxTimes", is_number=True, is_alarm=_differs("retryMaxTimes")),
    Column("NOTIFY", "notifyConsumerIdsChangedEnable", show=_flag("notifyConsumerIdsChangedEnable"), gives_way=True),
    Column("READ-FROM", "brokerId", is_number=True, is_wide=True),
    Column("WHEN-SLOW", "whichBrokerWhenConsumeSlowly", is_number=True, is_wide=True),
    Column("TIMEOUT-MIN", "consumeTimeoutMinute", is_number=True, is_wide=True),
    Column(
        "FORBIDDEN",
        "forbiddenTopics",
        show=_names("forbiddenTopics"),
        is_alarm=lambda item: bool(item["forbiddenTopics"]),
        is_wide=True,
    ),
    Column(
        "DIFFERS",
        "differingFields",
        show=_names("differingFields"),
        is_alarm=lambda item: bool(item["differingFields"]),
    ),
)
