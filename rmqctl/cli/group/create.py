"""rmqctl group create: create a group on brokers before its first client connects."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.change.group_options import Brokers, GroupSettings, request_words
from rmqctl.cli.change.options import ConfigConsent
from rmqctl.cli.invocation import Invocation

HELP = """\b
Examples:
  rmqctl group create my-group
  rmqctl group create my-group --retry-queues 4 --set consumeTimeoutMinute=30
  rmqctl group create my-group --from other-group      # with the settings of that group, per broker
  rmqctl group create my-group --broker broker-b       # on a broker that lacks it
  rmqctl group create my-group --dry-run -o json       # all fields

Creates the group on every master, or on those that --broker names. A field that is not given gets RocketMQ's default. A
broker that already has the group with these settings is not changed; if a broker has it with other settings, nothing is
changed at all. group config shows the current settings. The plan, the journal and the exit codes are those of offset
reset; offset undo deletes the group."""


def command(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The new consumer group.", show_default=False)],
    broker: Brokers = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="GROUP", help="Start from the settings of this group on each broker."),
    ] = None,
    *,
    settings: GroupSettings,
    consent: ConfigConsent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.groups.plan import ConfigRequest, plan_creation
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.model.names import require_new_name
    from rmqctl.model.plan import Subject

    invocation = Invocation(ctx)
    name, other = invocation.full_name(group), None if source is None else invocation.full_name(source)
    check_consent(invocation, Subject(name), consent, is_config_change=True)
    changes, brokers = settings.changes(), tuple(broker or ())
    require_new_name(group)
    origin = () if other is None else (f"--from {other}",)
    request = ConfigRequest(name, changes, brokers, request_words(changes.words, brokers, *origin), consent.reason)
    planned = invocation.ask(lambda client: plan_creation(client, request, other))
    return confirm_and_apply(invocation, planned, consent)
