"""How shares are shown: before and after, which queues move, and how even the shares are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmqctl.cli.output.listing import Column, Item, Listing, Section
from rmqctl.cli.output.totals import show_total, total_items, total_reasons, total_words
from rmqctl.rules.totals import total
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.model.failure import Failure
    from rmqctl.model.queue import MessageQueue
    from rmqctl.whatif.allocation import Trial
    from rmqctl.whatif.outcome import Balance, ClientShare, Spread, TrialOutcome
    from rmqctl.whatif.strategy_match import StrategyMatch

# The number of rows shown of a long list; -o wide shows all.
_SHOWN = 20


def to_listing(
    trials: Sequence[Trial], failures: Sequence[Failure] = (), *, group_count: int = 1, with_shares: bool = True
) -> Listing:
    """Make the listing of strategies that were tried: one in full, several with a row each.

    Each of `group_count` groups has the same number of trials, in order. Rows need no shares: there can be millions of
    queues.
    """
    several = len(trials) > 1
    items = [_item(trial, with_shares=with_shares or not several) for trial in trials]
    return Listing(
        kind="Allocation",
        columns=COLUMNS,
        items=items,
        name=lambda item: str(item["strategy"]),
        failures=failures,
        notes=list(dict.fromkeys(_notes(items, group_count))),
        sections=None if several else _sections,
    )


# Concerns that differ by strategy; the others are shown once.
_OF_ONE_STRATEGY = frozenset({
    "UNOWNED_QUEUES", "SHARED_QUEUES", "IDLE_CLIENTS", "CONSUMED_TWICE", "CONSUMED_TWICE_UNKNOWN",
    "MOVED_QUEUES_START_LAST", "ORDERLY_QUEUES_STALL", "ORDERLY_QUEUES_MOVE", "NEW_IDS_UNKNOWN",
})  # fmt: skip


def _notes(items: Sequence[Item], group_count: int) -> Iterator[str]:
    """Yield the concerns, with the group and strategy if there are several."""
    for index, item in enumerate(items):
        group = f"Group {index * group_count // len(items) + 1}: " if group_count > 1 else ""
        for concern in item["concerns"]:
            is_own = len(items) > group_count and concern["code"] in _OF_ONE_STRATEGY
            yield group + (f"{item['strategy']}: " if is_own else "") + str(concern["text"])


def _item(trial: Trial, *, with_shares: bool) -> dict[str, Any]:
    outcome, match, live = trial.outcome, trial.match, trial.snapshot.live
    risks = [move.duplicate_risk for move in outcome.moved]
    queues = {"queueCount": total([(len(trial.snapshot.queues), "")], hidden=None if live is None else live.hidden)}
    item: dict[str, Any] = {
        "group": None if live is None else live.group,
        "strategy": outcome.strategy,
        **total_items(queues),
        "clientCount": len(outcome.after),
        "movedCount": len(outcome.moved),
        "mostMovedCount": trial.most_moved_count,
        "duplicateRisk": None if None in risks or live is None else sum(risk for risk in risks if risk is not None),
        "idleCount": len(outcome.idle),
        "unownedCount": len(outcome.unowned),
        **_balance(outcome.balance),
        **(_shares(trial) if with_shares else {}),
        "isAsComputed": None if match is None else match.as_computed,
        "looksLike": [] if match is None else list(match.matching),
        "differingClientIds": [] if match is None else list(match.differing),
        "concerns": [{"code": concern.code, "text": concern.text} for concern in trial.concerns],
    }  # fmt: skip
    has_members = live is not None and bool(live.members or live.silent)
    absence = None if has_members else str((live and live.unseen_reason) or "NO_MEMBERS")
    reasons = _reasons(item, outcome, match, is_live=live is not None, absence=absence)
    item["reasons"] = reasons | total_reasons(queues)
    return item


def _shares(trial: Trial) -> dict[str, Any]:
    """Return the queues of each client, before and after."""
    outcome, live = trial.outcome, trial.snapshot.live
    return {
        "allocation": {client_id: _queues(share) for client_id, share in outcome.after.items()},
        "before": {
            **_balance(outcome.balance_before),
            "allocation": {client_id: _queues(share) for client_id, share in outcome.before.items()},
            "reasons": {
                name: reason if live is not None else "NOT_LIVE"
                for name, reason in _balance_reasons(outcome.balance_before).items()
            },
        },
        "clients": [
            {
                "clientId": share.client_id, "queueCountBefore": share.queue_count_before,
                "queueCount": share.queue_count, "gained": _queues(share.gained), "lost": _queues(share.lost),
                "lag": share.lag, "rate": None if share.rate is None else round(share.rate, 3),
                "reasons": _share_reasons(share, is_live=live is not None),
            }
            for share in outcome.clients
        ],
        "moved": [
            {
                **_queue(move.mq), "before": list(move.before), "after": list(move.after),
                "duplicateRisk": move.duplicate_risk,
                "reasons": (
                    {} if move.reason is None
                    else {"duplicateRisk": str(move.reason) if live is not None else "NOT_LIVE"}
                ),
            }
            for move in outcome.moved
        ],
        "addedQueues": _queues(outcome.added),
        "removedQueues": _queues(outcome.removed),
        "unownedQueues": _queues(outcome.unowned),
        "sharedQueues": _queues(outcome.shared),
        "idleClientIds": list(outcome.idle),
    }  # fmt: skip


def _reasons(
    item: Mapping[str, Any], outcome: TrialOutcome, match: StrategyMatch | None, *, is_live: bool, absence: str | None
) -> dict[str, str]:
    """Return the reason for each null."""
    reasons = _balance_reasons(outcome.balance)
    if not is_live:
        reasons = dict.fromkeys(reasons, "NOT_LIVE")
    if item["group"] is None:
        reasons["group"] = "NOT_LIVE"
    if item["mostMovedCount"] is None:
        reasons["mostMovedCount"] = "NAMES_KNOWN"
    if item["duplicateRisk"] is None:
        unknown = [move.reason for move in outcome.moved if move.reason is not None]
        reasons["duplicateRisk"] = str(unknown[0]) if is_live and unknown else "NOT_LIVE"
    if item["isAsComputed"] is None:
        reasons["isAsComputed"] = (absence or _why_not_compared(item, match)) if is_live else "NOT_LIVE"
    return reasons


def _why_not_compared(item: Mapping[str, Any], match: StrategyMatch | None) -> str:
    if match is not None and not match.is_subscribed:
        return "NOT_SUBSCRIBED"
    codes = {concern["code"] for concern in item["concerns"]}
    if "STRATEGIES_DIFFER" in codes:
        return "STRATEGIES_DIFFER"
    return "STRATEGY_UNKNOWN" if "OWN_STRATEGY_UNKNOWN" in codes else "CLIENT_SILENT"


def _share_reasons(share: ClientShare, *, is_live: bool) -> dict[str, str]:
    return {name: str(reason) if is_live else "NOT_LIVE" for name, reason in share.reasons.items()}


def _balance(balance: Balance) -> dict[str, float | None]:
    """Return least, most and standard deviation of what a client has, under keys such as lagMax."""
    spreads = {"queueCount": balance.queues, "lag": balance.lag, "rate": balance.rate}
    return {
        f"{name}{part}": None if spread is None else round(value(spread), 3)
        for name, spread in spreads.items() for part, value in _PARTS.items()
    }  # fmt: skip


_PARTS: Mapping[str, Callable[[Spread], float]] = {
    "Min": lambda spread: spread.least, "Max": lambda spread: spread.most, "Stdev": lambda spread: spread.deviation,
}  # fmt: skip


def _balance_reasons(balance: Balance) -> dict[str, str]:
    return {f"{name}{part}": str(reason) for name, reason in balance.reasons.items() for part in _PARTS}


def _queue(mq: MessageQueue) -> dict[str, Any]:
    return {"topic": mq.topic, "brokerName": mq.broker_name, "queueId": mq.queue_id}


def _queues(queues: Iterable[MessageQueue]) -> list[dict[str, Any]]:
    return [_queue(mq) for mq in queues]


def _sections(item: Item, is_wide: bool) -> list[Section]:
    facts = [
        ("queues", _queue_facts(item)),
        ("queues per client", _spread_facts(item, "queueCount")),
    ]
    if item["group"] is not None:
        facts += [("lag per client", _spread_facts(item, "lag")), ("msg/s per client", _spread_facts(item, "rate"))]
        facts.append(("now", _real_facts(item)))
        risk = item["duplicateRisk"]
        facts.append(("consumed twice", "unknown" if risk is None else f"up to {counted(risk, 'message')}"))
    name = item["strategy"] if item["group"] is None else f"{item['group']} by {item['strategy']}"
    title = f"{name}: {total_words(item, 'queueCount', 'queue')}, {counted(item['clientCount'], 'client')}"
    sections = [Section(title, facts)]
    has_work = item["group"] is not None
    shares = (*item["allocation"].values(), *item["before"]["allocation"].values())
    topics = {queue["topic"] for share in shares for queue in share}
    every = _client_columns(with_topic=len(topics) > 1)
    columns = [column for column in every if has_work or column.key not in ("lag", "rate")]
    clients = [
        {**client, "queues": item["allocation"].get(client["clientId"], [])}
        for client in (item["clients"] if is_wide else item["clients"][:_SHOWN])
    ]
    for key in ("gained", "lost"):
        if not any(client[key] for client in clients):
            columns = [column for column in columns if column.key != key]
    sections.append(Section(_part("Clients", clients, item["clients"]), (), columns, clients))
    if item["moved"]:
        moved = item["moved"] if is_wide else item["moved"][:_SHOWN]
        columns = [column for column in _MOVED if has_work or column.key != "duplicateRisk"]
        sections.append(Section(_part("Queues that move", moved, item["moved"]), (), columns, moved))
    return sections


def _part(title: str, shown: Sequence[object], every: Sequence[object]) -> str:
    left = len(every) - len(shown)
    return f"{title} ({len(shown)} of {len(every)}; -o wide shows all)" if left else title


def _queue_facts(item: Item) -> str:
    parts = [f"{item['movedCount']} moved"]
    for key, word in (("addedQueues", "added"), ("removedQueues", "removed"), ("unownedQueues", "without an owner")):
        if item[key]:
            parts.append(f"{len(item[key])} {word}")
    return ", ".join(parts)


def _spread_facts(item: Item, name: str) -> str:
    def said(spread: Item) -> str:
        least, most, deviation = (spread[f"{name}{part}"] for part in _PARTS)
        return "unknown" if least is None else f"{_number(least)} to {_number(most)} (stdev {_number(deviation)})"

    before, after = said(item["before"]), said(item)
    return after if before == after or not item["before"]["allocation"] else f"{after}, before {before}"


def _real_facts(item: Item) -> str:
    like = f"; looks like {', '.join(item['looksLike'])}" if item["looksLike"] else ""
    if item["isAsComputed"] is None:
        reason = item["reasons"]["isAsComputed"]
        return f"{_UNCOMPARED.get(reason, f'unknown whether there are members ({reason})')}{like}"
    if item["isAsComputed"]:
        return f"as computed by the group's strategy{like}"
    return f"{counted(len(item['differingClientIds']), 'client')} with other queues than computed{like}"


_UNCOMPARED = {
    "CLIENT_SILENT": "not every client reported its queues",
    "NO_MEMBERS": "no members",
    "NOT_SUBSCRIBED": "no member subscribes to it",
    "STRATEGIES_DIFFER": "by several strategies",
    "STRATEGY_UNKNOWN": "by a strategy that cannot be computed",
}


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


def _ranges(queues: Sequence[Mapping[str, Any]], *, with_topic: bool) -> str:
    """Return queues in short: broker-a:0-3,5 broker-b:0, or T@broker-a:0-3,5."""
    places: dict[tuple[str, str], list[int]] = {}
    for queue in queues:
        places.setdefault((queue["topic"], queue["brokerName"]), []).append(queue["queueId"])
    names = [f"{topic}@{broker_name}" if with_topic else broker_name for topic, broker_name in places]
    ids = [_id_ranges(found) for found in places.values()]
    return " ".join(f"{name}:{found}" for name, found in zip(names, ids, strict=True)) or "-"


def _id_ranges(ids: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for queue_id in sorted(set(ids)):
        if runs and runs[-1][-1] == queue_id - 1:
            runs[-1].append(queue_id)
        else:
            runs.append([queue_id])
    if runs and runs[0][0] < 0:
        return "all"
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _names(client_ids: Sequence[str]) -> str:
    return ",".join(client_ids) or "-"


def _spread_column(heading: str, key: str, *, is_wide: bool = False, gives_way: bool = False) -> Column:
    return Column(
        heading,
        key,
        show=lambda item: "-" if item[key] is None else _number(item[key]),
        is_number=True,
        is_wide=is_wide,
        gives_way=gives_way,
    )


COLUMNS = (
    Column("GROUP", "group", is_wide=True),
    Column("STRATEGY", "strategy"),
    Column("QUEUES", "queueCount", show=show_total("queueCount"), is_number=True),
    Column("CLIENTS", "clientCount", is_number=True),
    Column("MOVE", "movedCount", is_number=True),
    Column("DUPLICATES", "duplicateRisk", is_number=True, is_alarm=lambda item: bool(item["duplicateRisk"])),
    Column("IDLE", "idleCount", is_number=True, is_alarm=lambda item: bool(item["idleCount"])),
    Column("UNOWNED", "unownedCount", is_number=True, is_alarm=lambda item: bool(item["unownedCount"])),
    _spread_column("MIN", "queueCountMin"),
    _spread_column("MAX", "queueCountMax"),
    _spread_column("STDEV", "queueCountStdev"),
    _spread_column("LAG-STDEV", "lagStdev", gives_way=True),
    _spread_column("RATE-STDEV", "rateStdev", gives_way=True),
    _spread_column("LAG-MAX", "lagMax", is_wide=True),
    _spread_column("RATE-MAX", "rateMax", is_wide=True),
)


def _client_columns(*, with_topic: bool) -> tuple[Column, ...]:
    """Return the columns of clients; queues are shown with their topic if the group has several."""

    def queues(key: str) -> Callable[[Item], str]:
        return lambda item: _ranges(item[key], with_topic=with_topic)

    return (
        Column("CLIENT", "clientId"),
        Column("BEFORE", "queueCountBefore", is_number=True),
        Column("AFTER", "queueCount", is_number=True),
        Column("LAG", "lag", is_number=True),
        Column(
            "MSG/S", "rate", is_number=True, show=lambda item: "-" if item["rate"] is None else _number(item["rate"])
        ),
        Column("HOLDS", "queues", show=queues("queues")),
        Column("GAINS", "gained", show=queues("gained"), gives_way=True),
        Column("LOSES", "lost", show=queues("lost"), gives_way=True),
    )


_MOVED = (
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    Column("FROM", "before", show=lambda item: _names(item["before"])),
    Column("TO", "after", show=lambda item: _names(item["after"])),
    Column("DUPLICATES", "duplicateRisk", is_number=True),
)
