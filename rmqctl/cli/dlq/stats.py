"""rmqctl dlq stats: count the dead letters of a group by topic, tag, retries and hour."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from rmqctl.cli.arguments import Group
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.body import BodyStyle
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.totals import total_items, total_reasons, total_words
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.rules.dead_letters import given_up, origin_topic
from rmqctl.rules.totals import total
from rmqctl.text.names import one_of
from rmqctl.text.times import iso_time, time_fields

from .conditions import LetterConditions, LetterQuery
from .reading import LetterResult, read_letters, unfit_notes

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_reading import Letter

HELP = """\b
Examples:
  rmqctl dlq stats my-group
  rmqctl dlq stats my-group --since 24h --by hour
  rmqctl dlq stats my-group --by topic --by tag --topic orders
  rmqctl dlq stats my-group -o json | jq '.items[] | select(.by == "topic")'

\b
--by:
  topic      topic that the message was originally sent to
  tag        tag of the message
  reconsume  deliveries after the first
  given-up   why the message was given up, as in dlq show
  hour       hour when the broker stored the dead letter (UTC)
  broker     broker that stores it

All dead letters are read; the conditions are those of dlq show. Messages that cannot be read are not counted. They are
reported with their queue and offset; the exit code is then 8."""

_HOUR_MS = 3_600_000


class _Count(Struct):
    count: int = 0
    oldest_at_ms: int = 0
    newest_at_ms: int = 0


KINDS: "dict[str, Callable[[Letter], str | int | None]]" = {
    "topic": lambda letter: origin_topic(letter.properties),
    "tag": lambda letter: letter.properties.get("TAGS"),
    "reconsume": lambda letter: letter.message.reconsume_times,
    "given-up": lambda letter: given_up(letter.message.reconsume_times, letter.properties),
    "hour": lambda letter: iso_time(letter.message.stored_at_ms // _HOUR_MS * _HOUR_MS),
    "broker": lambda letter: letter.found.mq.broker_name,
}
_UNASKED = ("topic", "tag", "reconsume", "hour")
# These are sorted by value, the others by count.
_IN_ORDER = ("reconsume", "hour")


def command(
    ctx: typer.Context,
    group: Group,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", metavar="KIND", help=f"Count by: {', '.join(KINDS)}. Repeatable. Default: {', '.join(_UNASKED)}."
        ),
    ] = None,
    *,
    conditions: LetterConditions,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    kinds = tuple(dict.fromkeys(by or _UNASKED))
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"Invalid value for --by: {kind!r}.", hint=one_of(KINDS))
    wanted = conditions.wanted(invocation, group, BodyStyle())
    tallies: dict[str, dict[str | int | None, _Count]] = {kind: {} for kind in kinds}
    every = _Count()

    def take(found: "list[Letter]") -> None:
        for letter in found:
            at_ms = letter.message.stored_at_ms
            _add(every, at_ms)
            for kind, tally in tallies.items():
                _add(tally.setdefault(KINDS[kind](letter), _Count()), at_ms)

    outcome = invocation.ask(
        lambda client: read_letters(client, wanted, take, with_progress=invocation.display.with_notes),
        open_ended=True,
    )
    of_run = invocation.display.findings.failures
    return render(to_listing(wanted, tallies, every, outcome, of_run), invocation.display)


def _add(count: _Count, at_ms: int) -> None:
    count.oldest_at_ms = min(count.oldest_at_ms, at_ms) if count.count else at_ms
    count.newest_at_ms = max(count.newest_at_ms, at_ms)
    count.count += 1


def to_listing(
    wanted: LetterQuery, tallies: dict[str, dict[str | int | None, _Count]], every: _Count, outcome: LetterResult,
    of_run: Sequence[Failure],
) -> Listing:  # fmt: skip
    """Make the listing of all counts. `of_run` are the run's failures outside the reading."""
    hidden = next((each.error.name for each in (*outcome.failures, *of_run)), None)
    totals = {"count": total([(every.count, "")], hidden=hidden)}
    reasons = {"reasons": total_reasons(totals)}
    summary = _times(every) | total_items(totals) | {"readCount": outcome.read_count} | reasons
    return Listing(
        kind="DeadLetterStats",
        columns=COLUMNS,
        items=[item for kind, tally in tallies.items() for item in _items(kind, tally, every.count)],
        name=lambda item: f"{item['by']}={item['value']}",
        failures=outcome.failures,
        extra={"group": wanted.group, "summary": summary},
        notes=[f"Group {wanted.group}: {total_words(summary, 'count', 'dead letter')}."],
        warnings=unfit_notes(wanted),
        empty=f"Group {wanted.group} has no dead letters{' that meet the conditions' if wanted.is_narrowed else ''}.",
    )


def _items(kind: str, tally: dict[str | int | None, _Count], every_count: int) -> Iterator[dict[str, Any]]:
    def order(pair: tuple[str | int | None, _Count]) -> Any:
        value, count = pair
        return value if kind in _IN_ORDER else (-count.count, str(value))

    for value, count in sorted(tally.items(), key=order):
        yield {
            "by": kind,
            "value": None if value is None else str(value),
            **_times(count),
            "percent": round(100 * count.count / every_count, 1),
            "reasons": {"value": "NOT_SET"} if value is None else {},
        }


def _times(count: _Count) -> dict[str, Any]:
    oldest, newest = (count.oldest_at_ms, count.newest_at_ms) if count.count else (None, None)
    return {
        "count": count.count,
        **time_fields("earliestTimestamp", oldest),
        **time_fields("lastTimestamp", newest),
    }


COLUMNS = (
    Column("BY", "by"),
    Column("VALUE", "value"),
    Column("COUNT", "count", is_number=True),
    Column("%", "percent", is_number=True),
    Column("OLDEST", "earliestTimestamp", is_time=True, gives_way=True),
    Column("NEWEST", "lastTimestamp", is_time=True),
)
