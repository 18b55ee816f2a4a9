"""rmqctl message resend: have one group consume a message once more."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.change.options import ConfigConsent, group_name
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl message resend 7F0000010000A4B100000000000002F1 --group billing
  rmqctl message resend 7F00000100A418... --topic orders --group billing
  rmqctl message resend ID --group billing --direct             # any member, now
  rmqctl message resend ID --group billing --direct --client 10.1.0.7@4711

Only this group consumes the message again; other groups of its topic do not.

Without --direct, the broker that stores the message stores a copy in the group's retry topic, as if a member had sent
it back: members receive it after the shortest delay level (1 s), with one retry counted. rmqctl waits until it sees the
copy. This needs a group that pushes, is not in broadcasting mode, and has retries.

With --direct, the broker passes the message to one member, whose listener consumes it immediately and once. Its result
is shown, for example CR_SUCCESS or CR_LATER; nothing is committed, and a failure is not retried. The broker waits 10 s
for the listener, which runs on after that.

A message that this machine resent to the group before needs --again. Dead letters are refused: use dlq replay.

Both are recorded in the journal (offset history), and cannot be undone. Exit codes: 0 the copy was seen, or the
listener accepted the message; 1 refused; 9 not known."""


def command(
    ctx: typer.Context,
    identity: Annotated[str, typer.Argument(metavar="ID", help="The message's id.", show_default=False)],
    group: Annotated[str, typer.Option("--group", "-g", metavar="GROUP", help="The group.", show_default=False)],
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="The topic of an id that is a unique key.")
    ] = None,
    direct: Annotated[bool, typer.Option("--direct", help="Have one member consume it now.")] = False,
    client_id: Annotated[
        str | None, typer.Option("--client", metavar="ID", help="The member of --direct. [default: any]")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Even if it was resent to the group before.")] = False,
    *,
    consent: Annotated[ConfigConsent, without("partial")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.messages.lookup import decode_id
    from rmqctl.changes.journal.journal import Journal
    from rmqctl.changes.resend.plan import ResendRequest, plan_resend
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.model.plan import Subject

    invocation = Invocation(ctx)
    if client_id is not None and not direct:
        raise UsageError("--client needs --direct.")
    name = group_name(invocation, group)
    check_consent(invocation, Subject(name), consent)
    decode_id(identity)
    words = [identity, *(["--direct"] if direct else []), *(["--again"] if again else [])]
    request = ResendRequest(
        identity, name, None if topic is None else invocation.full_name(topic), direct, client_id, again,
        asked=" ".join(words), reason=consent.reason,
    )  # fmt: skip
    with Journal() as journal:

        async def make(client: "Client") -> "PlanReport":
            return await plan_resend(client, request, journal)

        planned = invocation.ask(make)
    return confirm_and_apply(invocation, planned, consent)
