"""rmqctl whatif churn: show which queues move when clients restart, with and without protection mode."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.arguments import Topics, milliseconds_option
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

from .options import BrokerCount, ConsumerCount, RunningGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqctl.model.failure import Failure
    from rmqctl.whatif.churn import Churn
    from rmqctl.whatif.group_snapshot import GroupSnapshot

HELP = """\b
Examples:
  rmqctl whatif churn my-group                                      # all clients restart, one after another
  rmqctl whatif churn my-group --client 10.0.0.7@41#9 --times 20    # one client flaps
  rmqctl whatif churn --brokers 5 --queues 2 --consumers 3 --every 30s --down 10s --protection 20s --protection 5m

In protection mode, a new client counts only after the protection time. Until then it gets no queue, and no queue moves
because of it. RocketMQ has no protection mode: the first row shows how it behaves.

\b
Columns:
  PROTECTION  protection time; none: without protection mode
  SHARES      number of times that queues got other owners
  MOVES       queues that got another owner, in total
  DUP-MOVES   of these, moves from an owner that is still running: for a while
              both may consume the same messages
  MOST        largest number of queues that one client had
  UNOWNED     time without an owner, summed over all queues
  DURATION    time until the last change

The simulation assumes that all clients react immediately; real clients lag by up to 20 s, each at its own time."""

_EVERY_MS, _DOWN_MS, _PROTECTION_MS = 30_000, 10_000, 60_000
_MOST_EVENTS = 10_000
# A restart shares all queues up to three times; this many queues and clients take about a minute.
_MOST_WORK = 50_000_000


def command(
    ctx: typer.Context,
    group: RunningGroup = None,
    topic: Topics = None,
    client: Annotated[
        list[str] | None, typer.Option("--client", metavar="ID", help="Restart only this client. Repeatable.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="DURATION", help="Time from one restart to the next. [default: 30s]"),
    ] = None,
    down: Annotated[
        str | None, typer.Option("--down", metavar="DURATION", help="How long a client is down. [default: 10s]")
    ] = None,
    times: Annotated[int, typer.Option("--times", metavar="N", help="Number of restarts of each client.")] = 1,
    protection: Annotated[
        list[str] | None,
        typer.Option(
            "--protection", metavar="DURATION", help="Protection time to simulate. Repeatable. [default: 60s]"
        ),
    ] = None,
    same_ids: Annotated[bool, typer.Option("--same-ids", help="Clients restart with the same id.")] = False,
    strategy: Annotated[
        str | None, typer.Option("--strategy", metavar="STRATEGY", help="Strategy to simulate.")
    ] = None,
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="FILE", help="File with a group in JSON; - for stdin.")
    ] = None,
    brokers: BrokerCount = None,
    queues: Annotated[
        int | None, typer.Option("--queues", metavar="N", help="Queues per broker of the group to simulate.")
    ] = None,
    consumers: ConsumerCount = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.results import not_found
    from rmqctl.cli.output.activity_line import ActivityLine
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.rules.allocate import sort_client_ids
    from rmqctl.text.names import closest
    from rmqctl.whatif.churn import restarts
    from rmqctl.whatif.trials import TrialRequest, own_strategy, require_known, simulate_all

    from .sources import read_group, read_spec, require_one_source, shaped, unread_brokers

    require_one_source("churn", group, spec, brokers, consumers)
    invocation = Invocation(ctx, needs_cluster=group is not None)
    choose_columns(_COLUMNS, invocation.display)
    every_ms, down_ms = _time_ms("--every", every, _EVERY_MS), _time_ms("--down", down, _DOWN_MS)
    given_ms = [_time_ms("--protection", text, 0) for text in protection or ()] or [_PROTECTION_MS]
    protections_ms = list(dict.fromkeys([0, *given_ms]))
    if every_ms == 0 or times < 1:
        raise UsageError("--every and --times must be greater than 0.")
    if strategy is not None:
        require_known([strategy], {})
    failures: Sequence[Failure] = ()
    if group is not None:
        snapshot, failures = read_group(invocation, invocation.full_name(group), topic or (), sample_s=0)
        request = TrialRequest(snapshot)
    else:
        found = read_spec(spec) if spec is not None else [shaped(brokers, queues, consumers)]
        if len(found) > 1:
            raise UsageError(f"--spec has {len(found)} groups; churn simulates only one.")
        request = found[0]
    ids = sort_client_ids(set(request.snapshot.client_ids))
    for client_id in client or ():
        if client_id not in ids:
            error = NotFoundError("Client", client_id, suggestions=closest(client_id, ids))
            raise not_found(error, unread_brokers(request.snapshot, failures))
    going = [client_id for client_id in ids if not client or client_id in client]
    if len(going) * times > _MOST_EVENTS:
        raise UsageError(
            f"{len(going) * times} restarts are more than {_MOST_EVENTS}.", hint="Select clients with --client."
        )
    size = len(request.snapshot.queues) + len(ids)
    if 3 * len(going) * times * len(protections_ms) * size > _MOST_WORK:
        size_words = counted(len(request.snapshot.queues), "queue")
        count = f"{counted(len(going) * times, 'restart')} of a group with {size_words}"
        raise UsageError(
            f"{count} and {counted(len(ids), 'client')} would take too long.", hint="Select clients with --client."
        )
    events = restarts(going, every_ms=every_ms, down_ms=down_ms, times=times, new_ids=not same_ids)
    name = own_strategy(request) if strategy is None else strategy
    with ActivityLine("Simulating restarts", is_wanted=invocation.display.with_notes):
        churns = simulate_all(request, name, events, protections_ms)
    listing = to_listing(churns, request.snapshot, name, failures, is_own=strategy is None)
    return render(listing, invocation.display)


def _time_ms(option: str, text: str | None, default_ms: int) -> int:
    return default_ms if text is None else milliseconds_option(option, text)


def to_listing(
    churns: "Sequence[Churn]",
    snapshot: "GroupSnapshot",
    strategy: str,
    failures: "Sequence[Failure]" = (),
    *,
    is_own: bool,
) -> Listing:
    """Make the listing, one row per protection time."""
    import msgspec

    live = snapshot.live
    return Listing(
        kind="ChurnList",
        columns=_COLUMNS,
        items=[msgspec.to_builtins(churn) for churn in churns],
        name=_show_protection,
        failures=failures,
        extra={"group": None if live is None else live.group, "strategy": strategy},
        notes=list(_notes(snapshot, strategy, is_own=is_own)),
    )


def _notes(snapshot: "GroupSnapshot", strategy: str, *, is_own: bool) -> "Iterator[str]":
    """Say what is assumed for unknown values, and what cannot be simulated."""
    live = snapshot.live
    if live is not None and is_own and len(live.strategies) != 1:
        reported = f"use {', '.join(sorted(live.strategies))}" if live.strategies else "do not report their strategy"
        yield f"The members {reported}: {strategy} is simulated for all of them."
    doubled = sorted({client_id for client_id in snapshot.client_ids if snapshot.client_ids.count(client_id) > 1})
    if doubled:
        yield f"Clients that share an id are simulated as one: {', '.join(doubled[:3])}."


def _show_time(key: str) -> Any:
    return lambda item: short_duration(item[key])


def _show_protection(item: Item) -> str:
    return short_duration(item["protectionMs"]) if item["protectionMs"] else "none"


_COLUMNS = (
    Column("PROTECTION", "protectionMs", show=_show_protection),
    Column("SHARES", "shareCount", is_number=True),
    Column("MOVES", "moveCount", is_number=True),
    Column("DUP-MOVES", "twiceCount", is_number=True),
    Column("MOST", "mostQueues", is_number=True),
    Column("UNOWNED", "unownedMs", show=_show_time("unownedMs"), is_number=True),
    Column("DURATION", "durationMs", show=_show_time("durationMs"), is_number=True),
)
