"""rmqctl topic create: create a topic on brokers before the first producer sends to it."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.change.group_options import Brokers
from rmqctl.cli.change.options import ConfigConsent, topic_name
from rmqctl.cli.invocation import Invocation

from .change_options import TopicSettings, change_topic

HELP = """\b
Examples:
  rmqctl topic create orders
  rmqctl topic create orders --queues 16 --type FIFO --order
  rmqctl topic create orders --broker broker-c           # on a broker that lacks it
  rmqctl topic create audit --set +reserve.time=86400000
  rmqctl topic create orders --dry-run -o json           # all fields

Creates the topic on every master, or on those that --broker names: readable and writable, with 8 queues per broker
unless options say otherwise. A broker that already has the topic with these settings is not changed; if a broker has it
with other settings, nothing is changed at all. The command ends when every name server lists the topic. The plan, the
journal and the exit codes are those of offset reset; offset undo deletes the topic."""


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The new topic.", show_default=False)],
    broker: Brokers = None,
    *,
    settings: TopicSettings,
    consent: ConfigConsent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.topics.plan import plan_creation
    from rmqctl.model.names import require_topic_name

    invocation = Invocation(ctx)
    require_topic_name(topic_name(invocation, topic))  # before the cluster is asked
    return change_topic(invocation, topic, broker, settings, consent, plan_creation)
