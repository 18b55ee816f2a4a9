"""rmqctl broker restore: give write permission back to a broker."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.change.options import ConfigConsent
from rmqctl.cli.invocation import Invocation

from .permission import By, permission_request

HELP = """\b
Examples:
  rmqctl broker restore broker-b
  rmqctl broker restore broker-b --dry-run
  rmqctl broker restore broker-b --by brokerPermission

Gives all topics of a broker write permission again, whether its own setting (brokerPermission) or the name servers'
routes (wipeWritePerm) lack it.

Without --by, the plan chooses: the setting if it lacks the permission; the routes (addWritePerm) if only name servers
lack it; but the setting as well if addWritePerm would open topics that the broker itself closes. After brokerPermission
is written, even with the same value, the broker registers each topic with its own permission.

The result is read back from the broker and every name server. The plan, the journal and the exit codes are those of
offset reset."""


def command(
    ctx: typer.Context,
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="Broker name.", show_default=False)],
    by: By = None,
    *,
    consent: ConfigConsent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.brokers.plan import plan_restore
    from rmqctl.cli.change.execution import confirm_and_apply

    invocation = Invocation(ctx)
    request = permission_request(invocation, broker, by, consent)
    planned = invocation.ask(lambda client: plan_restore(client, request))
    return confirm_and_apply(invocation, planned, consent)
