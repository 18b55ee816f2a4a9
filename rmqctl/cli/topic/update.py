"""rmqctl topic update: set some fields of a topic's configuration, and keep the others."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.change.group_options import Brokers
from rmqctl.cli.change.options import ConfigConsent
from rmqctl.cli.invocation import Invocation

from .change_options import TopicSettings, change_topic

HELP = """\b
Examples:
  rmqctl topic update orders --queues 16
  rmqctl topic update orders --write-queues 4            # first step to fewer queues: no new messages in the others
  rmqctl topic update orders --perm r                    # producers stop sending within 30 s
  rmqctl topic update orders --perm r --broker broker-a
  rmqctl topic update orders --set +message.type=FIFO    # an attribute (5.x); -NAME removes it

Each broker has its own copy of the configuration. rmqctl reads it, changes only the named fields and writes all of it
back, so no other field falls back to its default. The plan shows each broker's copy and the consequences: with fewer
read queues, the unread messages of each group that are cut off. The command ends when every name server lists the new
settings. The plan, the journal and the exit codes are those of offset reset; offset undo restores the previous
values."""


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to change.", show_default=False)],
    broker: Brokers = None,
    *,
    settings: TopicSettings,
    consent: ConfigConsent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.topics.plan import plan_update

    return change_topic(Invocation(ctx), topic, broker, settings, consent, plan_update, needs_change=True)
