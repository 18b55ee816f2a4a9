"""rmqctl whatif churn: simulate members that come and go, with and without protection mode."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.arguments import Topics
from rmqctl.cli.globals import TABLE_FORMATS
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Listing
from rmqctl.errors import UsageError
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

from .churn_table import COLUMNS, churn_item, show_protection, trace_item
from .options import BrokerCount, ConsumerCount, RunningGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqctl.whatif.churn.group import ChurnGroup
    from rmqctl.whatif.churn.story import Story
    from rmqctl.whatif.group_snapshot import GroupSnapshot

HELP = """\b
Examples:
  rmqctl whatif churn my-group                                  # all clients restart, one after another
  rmqctl whatif churn my-group --flap 10s:10.0.0.7@41#9         # one client leaves and rejoins every 10 s
  rmqctl whatif churn my-group --flap 10s --leave vanish        # brokers notice only after 2 minutes
  rmqctl whatif churn my-group --trace groups.jsonl             # as rmqctl watch --record groups.jsonl saw it
  rmqctl whatif churn --brokers 5 --queues 2 --consumers 3 --rate 100 --rolling 30s --protect 20s --protect 5m
  rmqctl whatif churn my-group --flap 10s --sweep protect=0s..5m       # choose a protection time
  rmqctl whatif churn my-group --flap 10s --for 3m --timeline          # which client has how many queues when

In protection mode, a new client counts only after the protection time. Until then it gets no queue, and no queue moves
because of it. RocketMQ has no protection mode: the first row shows how it behaves. A client that is killed commits
nothing; of one that vanishes, brokers notice it only after 2 minutes.

--version-rule refuse-older: brokers refuse the pulls of a client whose version is older than that of the last client
that joined. A version is the time of the client's own clock when it joined, when its queues changed, or when it tries
a refused pull again. RocketMQ serves such pulls.

\b
Columns:
  PROTECT      protection time; none: without protection mode
  REBALANCES   rebalances in which a client took or gave up queues
  MOVES        queues that a client took over from another one
  TWO-OWNERS   time with two or more owners, summed over all queues
  NO-OWNER     time without an owner, summed over all queues
  DUPLICATES   messages consumed more than once
  SETTLED      longest time after a change until each queue has one owner
  UNSETTLED    changes that had not settled before the next one or the end
  MOST         largest number of queues of one client
  START-WAIT   time from a client's start to its first queue, summed

Values are averages of all runs, with the smallest and the largest in parentheses."""

_PROTECT_MS = 60_000
_RUNS = 10
# A simulation makes about this many rebalances per second; and allocates this many queues and clients per second.
_REBALANCES_PER_S, _ALLOCATED_PER_S = 60_000, 1_000_000
_NOTIFIED_AT_ONCE = 3
_MOST_S = 600


def command(
    ctx: typer.Context,
    group: RunningGroup = None,
    topic: Topics = None,
    flap: Annotated[
        str | None,
        typer.Option(
            "--flap",
            metavar="DURATION[:CLIENT]",
            help="A client leaves after this time, rejoins after the same, again and again.",
        ),
    ] = None,
    rolling: Annotated[
        str | None,
        typer.Option("--rolling", metavar="DURATION", help="Restart all clients, one each time. [default: 30s]"),
    ] = None,
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="+N|-N", help="Clients that join or leave at once.")
    ] = None,
    broker_flap: Annotated[
        str | None,
        typer.Option(
            "--broker-flap",
            metavar="DURATION[:BROKER]",
            help="A broker stops after this time, starts after the same, again and again.",
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            metavar="DURATION[:CLIENT[/BROKER]]",
            help="A client cannot reach any broker, or this one, for this time.",
        ),
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option("--trace", metavar="FILE", help="Recording of rmqctl watch: what its clients did. Repeatable."),
    ] = None,
    down: Annotated[
        str | None,
        typer.Option("--down", metavar="DURATION", help="How long each client of --rolling is down. [default: 10s]"),
    ] = None,
    leave: Annotated[
        str,
        typer.Option("--leave", metavar="HOW", help="How clients leave: stop, kill or vanish."),
    ] = "stop",
    same_ids: Annotated[bool, typer.Option("--same-ids", help="Clients rejoin with the same id.")] = False,
    protect: Annotated[
        list[str] | None,
        typer.Option("--protect", metavar="DURATION", help="Protection time to simulate. Repeatable. [default: 60s]"),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            "--sweep", metavar="protect=TIME..TIME", help="Choose a protection time of this range, and show its costs."
        ),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Time to simulate. [default: 10m, or until all is over]"),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="Number of runs.")] = _RUNS,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the first run's random times.")] = 1,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="N", help="Messages per second in all queues. [default: as the group's]"),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option("--sample", metavar="DURATION", help="How long to count new messages of the group. [default: 1s]"),
    ] = None,
    consume_time: Annotated[
        str | None,
        typer.Option(
            "--consume-time",
            metavar="DURATION",
            help="Time of the listener per message. [default: as reported, else 10ms]",
        ),
    ] = None,
    commit_every: Annotated[
        str | None,
        typer.Option("--commit-every", metavar="DURATION", help="persistConsumerOffsetInterval. [default: 5s]"),
    ] = None,
    client_version: Annotated[
        str | None,
        typer.Option(
            "--client-version",
            metavar="4.9|5.0|5.2|rmqctl",
            help="Version of all clients. [default: as reported, else 5.2]",
        ),
    ] = None,
    orderly: Annotated[
        bool, typer.Option("--orderly", help="Clients consume in order, with locks. [default: as reported]")
    ] = False,
    version_rule: Annotated[
        str,
        typer.Option("--version-rule", metavar="rocketmq|refuse-older", help="Which pulls brokers refuse by version."),
    ] = "rocketmq",
    skew: Annotated[
        str | None,
        typer.Option("--skew", metavar="DURATION", help="Clients' clocks differ by up to this time. [default: 0]"),
    ] = None,
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
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Also show which client has how many queues when, in the first run.")
    ] = False,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write an HTML page; replaces FILE.")
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.activity_line import ActivityLine
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.cli.output.text import note_to_stderr, printable
    from rmqctl.page.file import require_file
    from rmqctl.whatif.churn.group import COMMIT_EVERY_MS, churn_group, unprotected_ids
    from rmqctl.whatif.churn.runs import simulate_runs
    from rmqctl.whatif.churn.story import scenario_story, trace_story
    from rmqctl.whatif.churn.sweep import choose, tried_times_ms
    from rmqctl.whatif.group_snapshot import GroupSnapshot
    from rmqctl.whatif.trials import TrialRequest, member_strategy_of, own_strategy, require_known

    from .churn_options import (
        read_departure,
        read_rate,
        read_scenario,
        read_timing,
        read_trace_files,
        read_version_rule,
        time_ms,
        times_ms,
    )
    from .churn_sweep import read_sweep, sweep_item, sweep_words
    from .churn_timeline import Drawing, churn_below, timeline_item
    from .sources import read_group, read_spec, require_one_source, sample_time_s, shaped

    given = {"flap": flap, "rolling": rolling, "scale": scale, "broker-flap": broker_flap, "partition": partition}
    departure = read_departure(leave)
    if trace:
        others = {**given, "spec": spec, "brokers": brokers, "queues": queues, "consumers": consumers, "down": down}
        _require_alone("trace", others | {"same-ids": same_ids or None, "sample": sample})
    else:
        require_one_source("churn", group, spec, brokers, consumers)
        if group is None and (topic or sample):
            raise UsageError(f"{'--topic' if topic else '--sample'} needs a running group.", hint="Name it as GROUP.")
        scenario = read_scenario(given, down, departure, new_ids=not same_ids)
    invocation = Invocation(ctx, needs_cluster=group is not None and not trace)
    choose_columns(COLUMNS, invocation.display)
    has_rows_only = invocation.display.format not in (*TABLE_FORMATS, "json", "yaml")
    if timeline and has_rows_only:
        raise UsageError("--timeline needs a table, json or yaml.")
    if html is not None:
        require_file("--html", html)
    protections_ms = [0, *(times_ms("--protect", protect) or [_PROTECT_MS])]
    between_ms = None if sweep is None else read_sweep(sweep)
    if between_ms is not None:
        _require_alone("sweep", {"protect": protect})
        protections_ms = [0, *tried_times_ms(*between_ms)]
    protections_ms = list(dict.fromkeys(protections_ms))
    given_for_ms = time_ms("--for", for_)
    messages_per_s, version = read_rate(rate), read_timing(client_version)
    consume_ms, commit_ms = time_ms("--consume-time", consume_time), time_ms("--commit-every", commit_every)
    skew_ms, refuses_older = time_ms("--skew", skew), read_version_rule(version_rule)
    if runs < 1 or given_for_ms == 0 or commit_ms == 0:
        raise UsageError("--runs, --for and --commit-every must be greater than 0.")
    if skew_ms and not refuses_older:
        raise UsageError("--skew is for --version-rule refuse-older only.")
    if strategy is not None:
        require_known([strategy], {})
    failures: Sequence[Any] = ()
    recorded = None
    if trace:
        recorded = read_trace_files(trace, [] if group is None else [group], topic or (), departure)
        if given_for_ms is not None:
            recorded = recorded.until(given_for_ms)
        request = TrialRequest(GroupSnapshot(recorded.queues, recorded.client_ids), recorded.strategy)
    elif group is not None:
        sample_s = 0 if messages_per_s is not None else sample_time_s(sample)
        snapshot, failures = read_group(invocation, invocation.full_name(group), topic or (), sample_s=sample_s)
        request = TrialRequest(snapshot)
    else:
        requests = read_spec(spec) if spec is not None else [shaped(brokers, queues, consumers)]
        if len(requests) > 1:
            raise UsageError(f"--spec has {len(requests)} groups; churn simulates only one.")
        request = requests[0]
    name = own_strategy(request) if strategy is None else strategy
    simulated = churn_group(
        request.snapshot,
        member_strategy_of(request, name),
        rate=messages_per_s,
        rates=None if recorded is None else recorded.rates,
        clients=None if recorded is None else recorded.clients,
        consume_ms=consume_ms,
        commit_every_ms=COMMIT_EVERY_MS if commit_ms is None else commit_ms,
        timing=version,
        is_orderly=orderly or None,
        refuses_older=refuses_older,
        skew_ms=skew_ms or 0,
    )
    if recorded is not None:
        story = trace_story(recorded)
    else:
        story = scenario_story(scenario, simulated, given_for_ms, max(protections_ms))
    _require_fast(simulated, story, run_count=runs * len(protections_ms))
    choice = None
    with ActivityLine("Simulating", is_wanted=invocation.display.with_notes):
        outcomes = simulate_runs(
            simulated,
            story.changes_of,
            protections_ms=protections_ms,
            for_ms=story.for_ms,
            run_count=runs,
            seed=seed,
        )
        if between_ms is not None:
            choice = choose(
                simulated, outcomes, least_ms=between_ms[0], most_ms=between_ms[1], run_count=runs, seed=seed
            )
            protections_ms = [0, choice.protection_ms or 0]
        drawn_ms = dict.fromkeys(protections_ms) if timeline or html else ()
        drawings = [Drawing(simulated, story, protection_ms, seed) for protection_ms in drawn_ms]
    size = f"{counted(len(simulated.client_ids), 'client')} and {counted(len(simulated.queues), 'queue')}"
    notes = list(
        _notes(request.snapshot, simulated, name, is_own=strategy is None, has_rate=messages_per_s is not None)
    )
    unprotected = unprotected_ids(simulated)
    notes += [story.concern] if story.concern else []
    if recorded is not None:
        notes += recorded.concerns(with_versions=version is None)
    live = request.snapshot.live
    listing = Listing(
        kind="ChurnList",
        columns=COLUMNS,
        items=[churn_item(outcome) for outcome in outcomes],
        name=show_protection,
        failures=failures,
        extra={
            "group": recorded.group if recorded is not None else None if live is None else live.group,
            "strategy": name,
            "scenario": story.kind,
            "forMs": story.for_ms,
            "seed": seed,
            "unprotectedClientCount": len(unprotected),
            "trace": None if recorded is None else trace_item(recorded),
            "sweep": None if choice is None else sweep_item(choice),
            "timelines": [timeline_item(drawing) for drawing in drawings] if timeline else None,
        },
        headings=[f"{size}: {story.words}, {counted(runs, 'run')}."],
        notes=notes,
        warnings=[
            *([_protection_warning(unprotected, len(simulated.timings))] if unprotected else ()),
            *([sweep_words(choice)] if choice is not None and has_rows_only else ()),
        ],
        below=lambda: churn_below(choice, drawings if timeline else (), invocation.display),
    )
    code = render(listing, invocation.display)
    if html is not None:
        from .churn_page import write_page

        write_page(html, listing, drawings, choice)
        if invocation.display.with_notes:
            note_to_stderr(printable(f"Written to {html}."))
    return code


def _require_alone(option: str, others: Mapping[str, object]) -> None:
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise UsageError(f"--{option} and --{given[0]} cannot be combined.")


def _require_fast(group: "ChurnGroup", story: "Story", *, run_count: int) -> None:
    """Raise UsageError for a simulation that would take longer than a person waits."""
    from rmqctl.whatif.churn.group import broker_names

    client_count, change_count = len(group.client_ids), story.change_count
    # Each broker notifies the clients of a change; those that wait between rebalances answer several at once.
    notified_count = len(broker_names(group))
    if group.timing.rebalance_min_ms:
        notified_count = min(notified_count, _NOTIFIED_AT_ONCE)
    rebalances = client_count * (change_count * notified_count + story.for_ms / group.timing.rebalance_ms)
    # All clients that join are allocated for each that joins.
    allocated = change_count * (len(group.queues) + story.client_count)
    took_s = run_count * (rebalances / _REBALANCES_PER_S + allocated / _ALLOCATED_PER_S)
    if took_s > _MOST_S:
        sentence = f"The simulation of {counted(client_count, 'client')} and {counted(change_count, 'change')}"
        raise UsageError(
            f"{sentence} would take about {short_duration(round(took_s * 1000))}.",
            hint="Use fewer --runs, a shorter --for, or fewer protection times.",
        )


def _protection_warning(unprotected: "Sequence[str]", client_count: int) -> str:
    clients = f"{len(unprotected)} of {counted(client_count, 'client')}"
    return (
        f"warning: protection is simulated for all clients, but {clients} cannot have it: it is rmqctl's. "
        "Clients with it and clients without it disagree about who counts."
    )


def _notes(
    snapshot: "GroupSnapshot", group: "ChurnGroup", strategy: str, *, is_own: bool, has_rate: bool
) -> "Iterator[str]":
    """Say what is assumed for unknown values, and what is not simulated."""
    live = snapshot.live
    if live is not None and is_own and len(live.strategies) != 1:
        reported = f"use {', '.join(sorted(live.strategies))}" if live.strategies else "do not report their strategy"
        yield f"The members {reported}: {strategy} is simulated for all of them."
    doubled = sorted({client_id for client_id in snapshot.client_ids if snapshot.client_ids.count(client_id) > 1})
    if doubled:
        yield f"Clients that share an id are simulated as one: {', '.join(doubled[:3])}."
    if not group.rates:
        yield "DUPLICATES is unknown: the arriving messages per second are not known (--rate)."
    elif not has_rate and not any(group.rates.values()):
        yield "No messages arrived while they were counted: DUPLICATES is 0 at this rate. Use --rate for another one."
