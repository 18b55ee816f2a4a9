"""rmqctl topic delete: delete a topic with its messages."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.change.group_options import Brokers
from rmqctl.cli.change.options import ConfigConsent
from rmqctl.cli.invocation import Invocation

from .change_options import change_topic

HELP = """\b
Examples:
  rmqctl topic delete orders
  rmqctl topic delete orders --broker broker-b          # only on this broker
  rmqctl topic delete orders --plan plan.json           # save the plan, for a review
  rmqctl topic delete %DLQ%my-group --confirm %DLQ%my-group

Deletes the topic with its messages on every master, or on those that --broker names, and then its route on every name
server. The plan shows how many messages are deleted, which groups have not read all of them, and which have members.
offset undo creates the topic again with its settings; it cannot bring back messages and offsets. A saved plan is
refused if it would now delete messages that it does not name.

RocketMQ's own topics, retry and dead-letter topics need their name twice: with --confirm. The plan, the journal and the
exit codes are those of offset reset."""


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to delete.", show_default=False)],
    broker: Brokers = None,
    *,
    consent: ConfigConsent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.topics.plan import plan_deletion

    return change_topic(Invocation(ctx), topic, broker, None, consent, plan_deletion)
