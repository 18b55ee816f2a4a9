"""rmqctl whatif expiry: show how long stuck messages wait until they are sent back."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.arguments import duration_option_ms
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.text.durations import short_duration

from .options import RunningGroup

if TYPE_CHECKING:
    from rmqctl.observe.stuck_scan import StuckQueue, StuckScan

HELP = """\b
Examples:
  rmqctl whatif expiry                                   # 20 messages of one queue are stuck
  rmqctl whatif expiry --messages 40 --consume-timeout 5m
  rmqctl whatif expiry my-group                          # messages in flight at its clients now
  rmqctl whatif expiry my-group -o json | jq '.items[] | {headOffset, laterMs}'

Every consumeTimeout (15 min), counted from its start, RocketMQ's client checks the first 16 messages in flight of each
queue and sends back those that are older than consumeTimeout. So a message waits up to twice that time, and longer
behind others. An exact timer, as in `rmqctl consume run`, sends back each message when its time is over.

\b
Columns:
  EXACT         how long a message waits with an exact timer
  ROCKETMQ      how long it waits with RocketMQ's client; without a group: in
                the best case, on average, in the worst case
  LATER-BY      difference between the two
  IN-HAND       how long the client has been processing it, at least
  NEXT-LOOK     time until the client's next check
  SENT-BACK-IN  time until a check of the client sends it back; a range if its
                age does not determine which check

Messages that are consumed in order are never sent back. A group is watched for 10 s (--for). Nothing is changed."""

_TIMEOUT_MS = 900_000


def command(
    ctx: typer.Context,
    group: RunningGroup = None,
    messages: Annotated[
        int,
        typer.Option("--messages", metavar="N", min=1, max=1000, help="Messages of one queue that are stuck together."),
    ] = 20,
    consume_timeout: Annotated[
        str | None,
        typer.Option(
            "--consume-timeout", metavar="DURATION", help="consumeTimeout. Default: the client's own, or 15m."
        ),
    ] = None,
    window: Annotated[str, typer.Option("--for", metavar="DURATION", help="Watch a group for this long.")] = "10s",
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx, needs_cluster=group is not None)
    timeout_ms = None if consume_timeout is None else duration_option_ms("--consume-timeout", consume_timeout)
    window_s = duration_option_ms("--for", window) / 1000
    if group is None:
        choose_columns(_MODEL_COLUMNS, invocation.display)
        return render(_model(messages, _TIMEOUT_MS if timeout_ms is None else timeout_ms), invocation.display)
    from rmqctl.observe.stuck_scan import scan_group

    choose_columns(_LIVE_COLUMNS, invocation.display)
    name = invocation.full_name(group)
    scan = invocation.ask(lambda client: scan_group(client, name, window_s=window_s), open_ended=True)
    return render(to_listing(scan, timeout_ms), invocation.display)


def _model(count: int, timeout_ms: int) -> Listing:
    """Compare the two for messages that get stuck together: just before a check, and just after one."""
    from rmqctl.whatif.rules.expiry import expiry_waits

    # In the best case a check follows 1 ms after the start, in the worst case a whole consumeTimeout after it.
    best, worst = (expiry_waits([0] * count, timeout_ms, first_ms) for first_ms in (1, timeout_ms))
    items = [
        {
            "message": number + 1,
            "exactMs": timeout_ms,
            "rocketmqBestMs": low.rocketmq_ms,
            "rocketmqMeanMs": (low.rocketmq_ms + high.rocketmq_ms) // 2,
            "rocketmqWorstMs": high.rocketmq_ms,
        }
        for number, (low, high) in enumerate(zip(best, worst, strict=True))
    ]
    return Listing(
        kind="ExpiryModel",
        columns=_MODEL_COLUMNS,
        items=items,
        name=lambda item: str(item["message"]),
        extra={"consumeTimeoutMs": timeout_ms},
    )


def to_listing(scan: "StuckScan", timeout_ms: int | None) -> Listing:
    """Make the listing of messages in flight, and how long each would wait in total."""
    from rmqctl.rules.health.positions import Motion
    from rmqctl.rules.stuck_queues import StuckReason

    resting = [
        each
        for each in scan.queues
        if each.watched.motion is Motion.RESTS
        and each.holder is not None
        and each.verdict.why is not StuckReason.NOT_POLLED
    ]
    return Listing(
        kind="ExpiryList",
        columns=_LIVE_COLUMNS,
        items=[_item(scan, each, timeout_ms) for each in resting],
        name=lambda item: f"{item['topic']}@{item['brokerName']}:{item['queueId']}",
        failures=scan.failures,
        extra={"group": scan.group, "state": scan.progress.state, "watchedMs": scan.watched_ms},
        empty=f"No client of group {scan.group} had the same message in flight during the whole watch.",
    )


def _item(scan: "StuckScan", queue: "StuckQueue", timeout_ms: int | None) -> dict[str, Any]:
    from rmqctl.rules.stuck_queues import AgeSource
    from rmqctl.whatif.rules.expiry import expiry_waits, likely_now_ms, next_look_ms, sent_back_in_ms

    holder, settings, held = queue.holder, queue.settings, queue.watched.last.held
    own_ms = None if settings is None else settings.consume_timeout_ms
    wanted_ms = own_ms if timeout_ms is None else timeout_ms
    in_hand_ms = queue.verdict.at_least_ms
    now_ms = None if holder is None or holder.now_ms is None else likely_now_ms(holder.now_ms, scan.looked_at_ms)
    started_at_ms = None if settings is None else settings.started_at_ms
    item: dict[str, Any] = {
        "group": scan.group, "topic": queue.progress.mq.topic, "brokerName": queue.progress.mq.broker_name,
        "queueId": queue.progress.mq.queue_id, "clientId": None if holder is None else holder.client_id,
        "headOffset": None if held is None else held.head_offset, "inHandMs": in_hand_ms,
        "consumeTimeoutMs": wanted_ms, "nextLookInMs": None, "sentBackInAtLeastMs": None, "sentBackInAtMostMs": None,
        "rocketmqMs": None, "exactMs": wanted_ms, "laterMs": None,
    }  # fmt: skip
    why = "NOT_REPORTED"
    if settings is not None and settings.is_orderly:
        why, item["exactMs"] = "CONSUMED_IN_ORDER", None
    elif queue.verdict.source is AgeSource.REPORTED:
        why = "EXACT_TIMER"  # rmqctl's own consumer, which does not check periodically
    elif now_ms is not None and started_at_ms is not None and wanted_ms and in_hand_ms is not None:
        look_in_ms = next_look_ms(started_at_ms, wanted_ms, now_ms) - now_ms
        (wait,) = expiry_waits([-in_hand_ms], wanted_ms, look_in_ms)
        most_age_ms = _most_age_ms(queue, started_at_ms, now_ms)
        at_least_ms, at_most_ms = sent_back_in_ms(in_hand_ms, most_age_ms, wanted_ms, look_in_ms)
        item |= {
            "nextLookInMs": look_in_ms, "sentBackInAtLeastMs": at_least_ms, "sentBackInAtMostMs": at_most_ms,
            "rocketmqMs": wait.rocketmq_ms, "laterMs": wait.rocketmq_ms - wait.exact_ms,
        }  # fmt: skip
    keys = (
        "nextLookInMs", "sentBackInAtLeastMs", "sentBackInAtMostMs", "rocketmqMs", "laterMs", "exactMs",
        "consumeTimeoutMs", "inHandMs", "headOffset",
    )  # fmt: skip
    missing = [key for key in keys if item[key] is None]
    return {**item, "reasons": dict.fromkeys(missing, why)}


def _most_age_ms(queue: "StuckQueue", started_at_ms: int, now_ms: int) -> int:
    """Return how long the head is in flight at most: since it was stored, the client started and locked the queue."""
    held, stored_ms = queue.watched.last.held, queue.verdict.at_most_ms
    taken_at_ms = None if held is None else held.locked_at_ms
    held_ms = max(0, now_ms - max(started_at_ms, taken_at_ms or 0))
    return held_ms if stored_ms is None else min(held_ms, stored_ms)


def _duration(key: str) -> Any:
    return lambda item: "-" if item[key] is None else short_duration(item[key])


def _rocketmq(item: Item) -> str:
    if item["rocketmqMs"] is not None:
        return short_duration(item["rocketmqMs"])
    return {"CONSUMED_IN_ORDER": "never", "EXACT_TIMER": "exact"}.get(item["reasons"]["rocketmqMs"], "-")


def _sent_back_in(item: Item) -> str:
    least, most = _duration("sentBackInAtLeastMs")(item), _duration("sentBackInAtMostMs")(item)
    return str(most) if least == most else f"{least}-{most}"


_MODEL_COLUMNS = (
    Column("MESSAGE", "message", is_number=True),
    Column("EXACT", "exactMs", show=_duration("exactMs"), is_number=True),
    Column("ROCKETMQ-BEST", "rocketmqBestMs", show=_duration("rocketmqBestMs"), is_number=True),
    Column("ROCKETMQ-MEAN", "rocketmqMeanMs", show=_duration("rocketmqMeanMs"), is_number=True),
    Column("ROCKETMQ-WORST", "rocketmqWorstMs", show=_duration("rocketmqWorstMs"), is_number=True),
)
_LIVE_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    Column("HEAD", "headOffset", is_number=True),
    Column("IN-HAND", "inHandMs", show=_duration("inHandMs"), is_number=True),
    Column("EXACT", "exactMs", show=_duration("exactMs"), is_number=True),
    Column("ROCKETMQ", "rocketmqMs", show=_rocketmq, is_number=True),
    Column("LATER-BY", "laterMs", show=_duration("laterMs"), is_number=True, gives_way=2),
    Column("NEXT-LOOK", "nextLookInMs", show=_duration("nextLookInMs"), is_number=True, gives_way=1),
    Column("SENT-BACK-IN", "sentBackInAtMostMs", show=_sent_back_in, is_number=True),
    Column("CLIENT", "clientId", is_kept=True),
)
