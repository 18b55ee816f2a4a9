"""rmqctl dlq replay: send dead letters again, each once."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from asyncio import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from rmqctl.cli.arguments import Group
from rmqctl.cli.change.options import ConfigConsent, group_name
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without
from rmqctl.cli.output.body import BodyStyle
from rmqctl.cli.output.message_options import Plugin
from rmqctl.cli.output.render import render
from rmqctl.errors import NotFoundError, PluginError, RmqctlError, UsageError

from .conditions import LetterConditions, LetterQuery
from .reading import unfit_notes
from .replay_listings import PLAN_COLUMNS, RECEIPT_COLUMNS, plan_listing, receipt_listing
from .replay_options import LedgerName, ToOrigin, ToTopic

if TYPE_CHECKING:
    from rmqctl.changes.dlq.outcome import ReplayOutcome
    from rmqctl.changes.dlq.plan import ReplayPlan
    from rmqctl.changes.dlq.rules.replay import ReplayTarget
    from rmqctl.changes.dlq.run import Transform
    from rmqctl.changes.dlq.source import DeadLetter, LetterSource
    from rmqctl.client.core import Client

    from .conditions import LetterQuery
    from .replay_listings import Made

HELP = """\b
Examples:
  rmqctl dlq replay my-group --dry-run          # what would be sent where, with the first five
  rmqctl dlq replay my-group --yes              # to the group's retry topic: only my-group consumes them
  rmqctl dlq replay my-group --since 2h --tag paid --max 100
  rmqctl dlq replay my-group --to-origin        # to their original topics: all groups of these consume them
  rmqctl dlq replay my-group --to-topic repairs
  rmqctl dlq replay my-group --from-file letters.jsonl --rate 50
  rmqctl dlq replay my-group --transform fix-amounts --plugin fix.py

A ledger on this machine, one per group and target, records what was sent. The same command can be run again at any
time, even after a crash: it resumes, and sends nothing twice. Messages that were in flight at the crash, or whose send
was not answered, are first looked for on the target. dlq status lists ledgers; --ledger NAME starts another one.

The retry count starts at 0. Message id, keys, tags, properties and the ids of the first copy are kept; the property
RMQCTL_REPLAY is added. Of several dead letters of the same delivery, only one is sent; of a message that was replayed
before, by any ledger, and died again, only the last one.

--to-origin and --to-topic send all messages with the same sharding key to one queue, in order. Retry, dead-letter and
system topics are refused as targets. A message on which a transform fails is named and not sent.

A dead letter that does not record its original topic is sent by --to-topic only (exit code 8 otherwise). To send only
these: dlq export --outfile FILE.jsonl, keep the lines whose originTopic is null, and replay this file with --to-topic.

--from-file rejects a file of another group, and a file that names no broker of this cluster; nothing is sent then.

While an orderly consumer of the group runs, brokers from 5.1.1 on turn messages in the retry topic into dead letters:
a replay to the retry topic is then refused. Sent messages cannot be taken back.

Exit codes: 0 all sent, 8 some not sent, 9 stored less safely than the broker is configured to, or in doubt."""


def command(
    ctx: typer.Context,
    group: Group,
    to_origin: ToOrigin = False,
    to_topic: ToTopic = None,
    from_file: Annotated[
        str | None, typer.Option("--from-file", metavar="FILE", help="Read from a file of dlq export (jsonl).")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Send at most N messages.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", min=0.1, help="Send at most N per second.", show_default=False),
    ] = None,
    transform: Annotated[
        str | None, typer.Option("--transform", metavar="NAME", help="Change each message with a plugin's transform.")
    ] = None,
    plugin: Plugin = None,
    ledger: LedgerName = "",
    *,
    conditions: LetterConditions,
    consent: Annotated[ConfigConsent, without("partial", "plan_path")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.dlq.plan import not_transformed
    from rmqctl.changes.dlq.work import chosen_target
    from rmqctl.cli.change.consent import check_display, require_consent
    from rmqctl.model.names import require_no_system_group
    from rmqctl.net.file_lock import require_file_locks

    invocation = Invocation(ctx)
    if not consent.dry_run:
        require_file_locks("Replaying dead letters")
    check_display(
        invocation,
        is_plan_only=consent.dry_run,
        plan_columns=PLAN_COLUMNS,
        receipt_columns=RECEIPT_COLUMNS,
        done="sent",
    )
    name = group_name(invocation, group)
    require_no_system_group(name)
    wanted = conditions.wanted(invocation, group, BodyStyle())
    if from_file is not None and wanted.is_narrowed:
        raise UsageError("--from-file cannot be used with conditions.", hint="Select lines of the file with jq.")
    topic = None if to_topic is None else invocation.full_name(to_topic)
    target = chosen_target(name, to_origin=to_origin, to_topic=topic)
    change = _transform(transform, plugin)
    work = _Work(invocation, name, target, ledger, wanted, from_file, most)
    plan = invocation.ask(partial(work.plan, is_dry=consent.dry_run), open_ended=True)
    display = invocation.display
    sample = [(letter, _made(letter, change)) for letter in plan.sample]
    plan.failures += (not_transformed(letter, made) for letter, made in sample if isinstance(made, PluginError))
    listing = plan_listing(
        name, plan, most, is_dry=consent.dry_run, sample=sample, transform=transform, warnings=unfit_notes(wanted)
    )
    if consent.dry_run or not plan.most_count:
        return render(listing, display if consent.dry_run else replace(display, columns=(), sort_keys=()))
    if plan.obstacle is not None:
        raise plan.obstacle
    require_consent(invocation, listing, name, consent)
    return work.replay(plan, rate, change, consent.reason)


def _made(letter: "DeadLetter", change: "Transform | None") -> "Made":
    """Return what would be sent for a dead letter, or the error of the transform."""
    try:
        return letter if change is None else change(letter)
    except PluginError as error:
        return error


def _transform(name: str | None, plugins: list[str] | None) -> "Transform | None":
    if name is None:
        if plugins:
            raise UsageError("--plugin needs --transform.", hint="Name the transform with --transform NAME.")
        return None
    from rmqctl.model.send_result import OutgoingMessage
    from rmqctl.plugin.loader import letter_transform
    from rmqctl.rules.dead_letters import origin_topic

    run = letter_transform(name, plugins or ())

    def change(letter: Any) -> OutgoingMessage | None:
        made = run(letter.body, letter.properties, origin_topic(letter.properties) or "")
        if made is None:
            return None
        body, changes = made
        properties = {**letter.properties, **changes}
        return OutgoingMessage(
            body, {key: value for key, value in properties.items() if value is not None}, letter.flag
        )

    return change


class _Work:
    """Plans and runs one replay."""

    def __init__(
        self, invocation: Invocation, group: str, target: "ReplayTarget", ledger_name: str, wanted: "LetterQuery",
        from_file: str | None, most: int | None,
    ) -> None:  # fmt: skip
        from rmqctl.changes.dlq.topic_source import TopicLetters
        from rmqctl.changes.dlq.work import ReplayWork

        self._invocation = invocation
        self._group = group
        self._from_file = from_file
        self._letters = TopicLetters(group, wanted.filter, None if wanted.match is None else wanted.match.accepts)
        self._work = ReplayWork(group, target, ledger_name, most, self._source)

    async def plan(self, client: "Client", *, is_dry: bool) -> "ReplayPlan":
        """Read and plan. Raises what ReplayWork.plan() does."""
        from rmqctl.cli.output.progress import ScanProgress

        with ScanProgress("Reading dead letters", is_wanted=self._with_notes) as progress:
            return await self._work.plan(client, progress.show, is_dry=is_dry)

    def replay(self, plan: "ReplayPlan", rate: float | None, transform: "Transform | None", reason: str | None) -> int:
        """Send, and show the receipt. Returns the exit code."""
        from rmqctl.changes.dlq.outcome import ReplayOutcome
        from rmqctl.changes.interrupts import Interrupts
        from rmqctl.cli.output.text import note_to_stderr, printable

        outcome, count = ReplayOutcome(), plan.most_count
        with Interrupts() as interrupts:

            async def run(client: "Client") -> None:
                interrupts.watch()
                await self._run(client, outcome, plan, rate, transform, reason)

            try:
                # The receipt shows what is already stored.
                with outcome.noting_end(count):
                    self._invocation.ask(run, open_ended=True)
            except (KeyboardInterrupt, CancelledError):
                said = f"Interrupted: {outcome.stored_count} of {count} stored. Run the same command again to resume."
                note_to_stderr(printable(said))
                raise KeyboardInterrupt from None
        listing = receipt_listing(self._group, plan, outcome)
        code = render(listing, self._invocation.display)
        return 9 if code == 0 and outcome.is_unconfirmed else code

    async def _run(
        self, client: "Client", outcome: "ReplayOutcome", plan: "ReplayPlan", rate: float | None,
        transform: "Transform | None", reason: str | None,
    ) -> None:  # fmt: skip
        from rmqctl.cli.change.execution import this_process
        from rmqctl.cli.output.progress import ScanProgress
        from rmqctl.cli.output.text import note_to_stderr, printable

        with ScanProgress("Replaying", is_wanted=self._with_notes, with_rate=True) as progress:
            await self._work.run(
                client, plan, outcome, this_process(self._invocation), reason, rate=rate, transform=transform,
                on_progress=lambda sent: progress.show(sent, plan.most_count),
                report=lambda said: note_to_stderr(printable(said)) if self._with_notes else None,
            )  # fmt: skip

    async def _source(self, client: "Client", show: Any) -> "LetterSource":
        from rmqctl.admin.brokers.cluster import fetch_cluster
        from rmqctl.model.failure import Failure

        from .replay_sources import FileSource

        if self._from_file is None:
            return await self._letters.source(client, show)
        here = {broker.broker_name for broker in (await fetch_cluster(client)).brokers}
        try:
            return FileSource(self._from_file, self._group, here, await self._letters.source(client, show))
        except NotFoundError:  # the group has no dead letters here
            return FileSource(self._from_file, self._group, here, None)
        except RmqctlError as error:
            unread = Failure(None, f"dead letters of {self._group}", error)
            return FileSource(self._from_file, self._group, here, None, [unread])

    @property
    def _with_notes(self) -> bool:
        return self._invocation.display.with_notes
