"""rmqctl group update: set some fields of a group's configuration, and keep the others."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.

import typer

from rmqctl.cli.arguments import Group
from rmqctl.cli.change.group_options import Brokers, GroupSettings, request_words
from rmqctl.cli.change.options import ConfigConsent, group_name
from rmqctl.cli.invocation import Invocation

HELP = """\b
Examples:
  rmqctl group update my-group --retries 3
  rmqctl group update my-group --no-consume                    # pause consumption
  rmqctl group update my-group --set brokerId=1 --broker broker-a
  rmqctl group update my-group --set 'groupRetryPolicy={"type":"EXPONENTIAL"}'
  rmqctl group update my-group --set +priority.factor=10       # an attribute (5.x); -NAME removes it

Each broker has its own copy of the configuration. rmqctl reads it, changes only the named fields and writes all of it
back, so no other field falls back to its default. The plan shows each broker's copy and the consequences. Brokers apply
the change immediately. The plan, the journal and the exit codes are those of offset reset; offset undo restores the
previous values."""


def command(
    ctx: typer.Context,
    group: Group,
    broker: Brokers = None,
    *,
    settings: GroupSettings,
    consent: ConfigConsent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.groups.plan import ConfigRequest, plan_update
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.errors import UsageError
    from rmqctl.model.plan import Subject

    invocation = Invocation(ctx)
    name = group_name(invocation, group)
    check_consent(invocation, Subject(name), consent, is_config_change=True)
    changes, brokers = settings.changes(), tuple(broker or ())
    if not changes.names:
        raise UsageError("No change is given.", hint="Add for example --retries 3, or --set FIELD=VALUE for any field.")
    request = ConfigRequest(name, changes, brokers, request_words(changes.words, brokers), consent.reason)
    planned = invocation.ask(lambda client: plan_update(client, request))
    return confirm_and_apply(invocation, planned, consent)
