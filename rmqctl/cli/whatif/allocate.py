"""rmqctl whatif allocate: show which client would get which queue."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import Topics
from rmqctl.cli.invocation import Invocation
from rmqctl.errors import NotFoundError, UsageError

from .options import BrokerCount, ConsumerCount, RunningGroup, StrategyParameters

if TYPE_CHECKING:
    from rmqctl.model.failure import Failure

HELP = """\b
Examples:
  rmqctl whatif allocate my-group                                # current shares, and those of its strategy
  rmqctl whatif allocate my-group --add-clients 2                # two more clients
  rmqctl whatif allocate my-group --remove-clients 10.0.0.7@41#9
  rmqctl whatif allocate my-group --queues +4 --add-brokers 1
  rmqctl whatif allocate my-group --remove-broker broker-b --compare averagely,circle,sticky
  rmqctl whatif allocate --brokers 5 --queues 2 --consumers 3    # no cluster needed
  rmqctl whatif allocate --spec group.json -o json

\b
Strategies: averagely (RocketMQ's default), circle, consistent-hash,
config, machine-room, machine-room-nearby, pop-share; rmqctl's own: sticky
(least movement) and lag-weighted (equal work). RocketMQ's names are accepted
as well (AVG).

\b
--spec reads one group or a list of groups:
  {"strategy": "averagely",
   "options": {"virtualNodes": 10, "rooms": [], "queues": [], "siteOf": "-",
     "inner": "averagely", "popShareQueueNum": 0, "weights": [],
     "custom": {}},
   "queues": [{"topic": "T", "brokerName": "broker-a", "queueId": 0}],
   "clients": ["c1", "c2"]}

As in RocketMQ, each topic is shared among all clients of the group, and shares depend on the order of names: clients
are sorted by id. Options under "custom" are for a plugin's strategy. Nothing is changed."""


def command(
    ctx: typer.Context,
    group: RunningGroup = None,
    topic: Topics = None,
    strategy: Annotated[
        list[str] | None, typer.Option("--strategy", metavar="STRATEGY", help="Strategy to simulate. Repeatable.")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="STRATEGIES", help="Strategies to compare, separated by commas, or all."),
    ] = None,
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="FILE", help="File with groups in JSON; - for stdin.")
    ] = None,
    brokers: BrokerCount = None,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queues", metavar="N|+N|-N|=N", help="Queues per broker; with a sign, a change to them. Repeatable."
        ),
    ] = None,
    consumers: ConsumerCount = None,
    add_clients: Annotated[
        list[str] | None, typer.Option("--add-clients", metavar="N|ID", help="Clients to add. Repeatable.")
    ] = None,
    remove_clients: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-clients", metavar="ID|N", help="Clients to remove; a number removes the last ones. Repeatable."
        ),
    ] = None,
    add_brokers: Annotated[
        list[str] | None,
        typer.Option(
            "--add-brokers", metavar="N|NAME", help="Brokers to add, with as many queues as the others. Repeatable."
        ),
    ] = None,
    remove_broker: Annotated[
        list[str] | None,
        typer.Option("--remove-brokers", "--remove-broker", metavar="NAME", help="Broker to remove. Repeatable."),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option("--sample", metavar="DURATION", help="How long to count new messages. [default: 1s]"),
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="FILE", help="Plugin with strategies or site resolvers. Repeatable."),
    ] = None,
    *,
    options: StrategyParameters,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.results import not_found
    from rmqctl.cli.output.activity_line import ActivityLine
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.plugin.loader import load_plugins, site_resolvers, strategies
    from rmqctl.whatif.changes import TrialChanges, parse_names_or_count
    from rmqctl.whatif.trials import TrialRequest, require_known, try_all

    from .options import queue_words, strategy_words
    from .shares import COLUMNS, to_listing
    from .sources import read_group, read_spec, require_one_source, sample_time_s, shaped, unread_brokers

    invocation = Invocation(ctx, needs_cluster=group is not None)
    choose_columns(COLUMNS, invocation.display)
    require_one_source("allocate", group, spec, brokers, consumers)
    if group is None and (topic or sample):
        raise UsageError(f"{'--topic' if topic else '--sample'} needs a running group.", hint="Name it as GROUP.")
    manager = load_plugins(plugin or ())
    size, queue_change = queue_words(queues or ())
    changes = TrialChanges(
        add_clients=parse_names_or_count("--add-clients", add_clients or ()),
        remove_clients=parse_names_or_count("--remove-clients", remove_clients or ()),
        add_brokers=parse_names_or_count("--add-brokers", add_brokers or ()),
        remove_brokers=tuple(remove_broker or ()),
        queues=queue_change,
    )
    words, custom = strategy_words(strategy or (), compare), strategies(manager)
    require_known(words, custom)
    if spec is not None and size is not None:
        raise UsageError(f"--queues {size} cannot be used with --spec.", hint="Use +N, -N or =N to change its queues.")
    failures: Sequence[Failure] = ()
    if group is not None:
        if size is not None:
            sentence = f"--queues {size} cannot be used with a running group."
            raise UsageError(sentence, hint="Use +N, -N or =N to change its queues.")
        name = invocation.full_name(group)
        snapshot, failures = read_group(
            invocation, name, topic or (), sample_s=sample_time_s(sample), may_be_empty=bool(changes.add_clients)
        )
        requests = [TrialRequest(snapshot)]
    elif spec is not None:
        requests = read_spec(spec)
    else:
        requests = [shaped(brokers, size, consumers)]
    try:
        with ActivityLine("Computing shares", is_wanted=invocation.display.with_notes):
            trials = try_all(
                requests, changes, words, options.given(), custom=custom, resolvers=site_resolvers(manager)
            )
    except NotFoundError as error:
        raise not_found(error, unread_brokers(requests[0].snapshot, failures)) from None
    display = invocation.display
    with_shares = display.format in ("json", "jsonl", "yaml") or bool(display.columns or display.conditions)
    listing = to_listing(trials, failures, group_count=len(requests), with_shares=with_shares)
    return render(listing, display)
