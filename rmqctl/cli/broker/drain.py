"""rmqctl broker drain: take write permission from a broker."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.change.options import ConfigConsent
from rmqctl.cli.invocation import Invocation

from .permission import By, permission_request, show_effects, with_effects

if TYPE_CHECKING:
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.client.core import Client
    from rmqctl.whatif.readonly import Readonly

HELP = """\b
Examples:
  rmqctl broker drain broker-b --dry-run
  rmqctl broker drain broker-b --reason 'disk replaced'
  rmqctl broker drain broker-b --by wipeWritePerm
  rmqctl broker restore broker-b                        # gives the permission back

Takes write permission for all topics of a broker, so that producers send to other brokers; consumers still read it.
The first table is that of whatif readonly: what happens to messages of the broker that groups fail to consume.

\b
Two ways, of which the plan names one and the reason:
  brokerPermission  the broker's own setting, in its configuration file. It
                    lasts. The broker rejects messages that are sent back.
  wipeWritePerm     the routes of every name server. The broker still accepts
                    messages that are sent back. A name server forgets it when
                    it restarts and when the broker registers a change.

Without --by, the setting is used, unless a group would block, may block, or mixes members in order and others. A broker
that does not answer can only be taken from the routes: --by wipeWritePerm --partial.

The result is read back from the broker and every name server. offset undo and broker restore revert it. The plan, the
journal and the exit codes are those of offset reset."""


def command(
    ctx: typer.Context,
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="Broker name.", show_default=False)],
    by: By = None,
    *,
    consent: ConfigConsent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.brokers.plan import plan_drain
    from rmqctl.cli.change.execution import confirm_and_apply

    invocation = Invocation(ctx)
    request = permission_request(invocation, broker, by, consent)

    async def make(client: "Client") -> "tuple[Readonly | None, PlanReport]":
        found, chosen = await with_effects(client, request)
        return found, await plan_drain(client, chosen)

    found, planned = invocation.ask(make)
    if planned.plan.configs:
        show_effects(invocation, found)
    return confirm_and_apply(invocation, planned, consent)
