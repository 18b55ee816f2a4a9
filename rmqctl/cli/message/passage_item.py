"""Which groups have passed a message: as a key of its item, as a part of the message in full, and in notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rmqctl.cli.output.listing import Column, Item, Section
from rmqctl.model.group import Proxies

if TYPE_CHECKING:
    from rmqctl.admin.offsets.passages import MessagePassages, PassageReport
    from rmqctl.admin.rules.passage import GroupPassage

_REASONS = {
    "WAITS": "It is not in its topic yet, so no group can have it.",
    "HALF_MESSAGE": "It is the first half of a transaction. Groups get another message when it is committed.",
    "LITE_TOPIC": "It is in a lite topic, whose offsets are not compared here: see rmqctl offset show GROUP.",
}
_VERDICTS = {
    "PASSED": "The committed offset is past the message. The group consumed it, sent it back to its retry topic, or "
    "skipped it (a reset, or a later start).",
    "FILTERED": "The committed offset is past the message, and the group's current filter does not match it.",
    "NOT_YET": "The committed offset is not past the message. A member may be processing it, or have finished it "
    "before earlier messages.",
    "POP": "Members pop: their offset passes a message before it is acknowledged, so it may be in flight.",
    "BROADCASTING": "Each member keeps its own offsets, which brokers do not know.",
    "NEVER_COMMITTED": "The group has no offset in the queue of the message.",
    "OFFSET_BEYOND_MAX": "The committed offset is beyond the end of the queue: it may be left from a deleted topic.",
}


def with_passages(item: Item, passages: MessagePassages) -> dict[str, Any]:
    """Return a message's item with the key `consumedBy`."""
    if passages.groups is None:
        return {**item, "consumedBy": None, "reasons": {**item["reasons"], "consumedBy": passages.reason}}
    return {**item, "consumedBy": [_group(each) for each in passages.groups]}


def _group(passage: GroupPassage) -> dict[str, Any]:
    subscription = passage.subscription
    reasons = {name: str(reason) for name, reason in passage.reasons.items()}
    return {
        "group": passage.group,
        "verdict": passage.verdict,
        "consumerOffset": passage.consumer_offset,
        "subString": None if subscription is None else subscription.expression,
        "expressionType": None if subscription is None else subscription.expression_type,
        "reasons": reasons if subscription is not None else {**reasons, "expressionType": reasons["subString"]},
    }


def passage_section(item: Item) -> Section:
    """Return the part of a message in full that shows its groups."""
    groups, title = item["consumedBy"], "consumed by"
    if groups is None:
        reason = item["reasons"]["consumedBy"]
        return Section(title=title, facts=[("unknown", _REASONS.get(reason, f"{item['brokerName']}: {reason}"))])
    if not groups:
        sentence = f"No group has a member or an offset for {item['topic']} on {item['brokerName']}."
        return Section(title=title, facts=[("none", sentence)])
    return Section(title=title, columns=_COLUMNS, items=groups)


def passage_notes(items: Iterable[Item], report: PassageReport) -> list[str]:
    """Return the meaning of each verdict and reason that occurs, and who cannot be seen."""
    words = {_verdict(group) for item in items for group in item["consumedBy"] or ()}
    notes = [f"{word}: {sentence}" for word, sentence in _VERDICTS.items() if word in words]
    if report.proxies in (Proxies.PRESENT, Proxies.REFUSED):
        are = "are" if report.proxies is Proxies.PRESENT else "may be"
        notes.append(
            f"Proxies {are} connected to this cluster, and members behind them pop. For a group without visible "
            "members, PASSED may therefore mean in flight."
        )
    return notes


def _verdict(group: Item) -> str:
    return str(group["verdict"] or group["reasons"]["verdict"])


def _show_verdict(group: Item) -> str:
    return str(group["verdict"] or f"unknown ({group['reasons']['verdict']})")


def _show_groups(item: Item) -> str:
    groups: Sequence[Item] | None = item["consumedBy"]
    return "-" if groups is None else " ".join(f"{group['group']}:{_verdict(group)}" for group in groups) or "none"


_COLUMNS = (
    Column("GROUP", "group"),
    Column("VERDICT", "verdict", show=_show_verdict),
    Column("OFFSET", "consumerOffset", is_number=True),
    Column("FILTER", "subString"),
)
CONSUMED_BY = Column("CONSUMED-BY", "consumedBy", show=_show_groups)
