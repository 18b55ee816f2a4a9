"""Plans the undo of a change of any kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from rmqctl.changes.brokers.undo import plan_broker_undo
from rmqctl.changes.configs.rules.fields import holds
from rmqctl.changes.groups.dead_letter_permission import plan_permission_undo
from rmqctl.changes.groups.undo import plan_group_undo
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.journal.rows import Change
from rmqctl.changes.offsets.undo import plan_undo
from rmqctl.changes.topics.undo import plan_topic_undo
from rmqctl.client.core import Client
from rmqctl.errors import RefusedError
from rmqctl.model.names import dead_letter_topic
from rmqctl.model.plan import Consequence, Operation, is_config_change
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, ReceiptItem, Result
from rmqctl.text.words import counted, listed

from .plan_parts import PlanReport
from .same_cluster import follow_receipt

_Item = TypeVar("_Item", ReceiptItem, ConfigReceiptItem)


async def plan_change_undo(
    client: Client, receipt: Receipt, later: Sequence[str], *, assume_offline: bool, assume_same_cluster: bool,
    reason: str | None,
) -> PlanReport:  # fmt: skip
    """Return the plan of an undo. `later` are the ids of later changes that it overwrites, from find_later().

    Raises RefusedError if nothing was changed, and for a receipt of another cluster; and what plan_undo,
    plan_group_undo, plan_permission_undo, plan_topic_undo and plan_broker_undo raise.
    """
    if receipt.operation is Operation.MESSAGE_RESEND:
        raise RefusedError(f"There is nothing to undo in {receipt.id}: a message that was resent cannot be taken back.")
    receipt, moved = await follow_receipt(client, receipt, assume=assume_same_cluster)
    if receipt.operation is Operation.DLQ_FIX_PERMISSION:
        planned = await plan_permission_undo(client, receipt, reason=reason)
    elif receipt.broker is not None:
        planned = await plan_broker_undo(client, receipt, reason=reason)
    elif receipt.topic is not None:
        planned = await plan_topic_undo(client, receipt, reason=reason)
    else:
        make = plan_group_undo if is_config_change(receipt.operation) else plan_undo
        planned = await make(client, receipt, assume_offline=assume_offline, reason=reason)
    consequences = (
        *planned.plan.consequences,
        *moved,
        *_not_attempted(receipt),
        *_sent_back(receipt),
        *_later_changes(later),
    )
    return replace(planned, plan=replace(planned.plan, consequences=consequences))


def _not_attempted(receipt: Receipt) -> tuple[Consequence, ...]:
    """Return what the change did not attempt: its undo does not change it either, and is still complete."""
    counts = Counter(item.mq.broker_name for item in receipt.items if item.result is Result.NOT_ATTEMPTED)
    parts = [f"{counted(count, 'queue')} at {name}" for name, count in sorted(counts.items())]
    configs = [item.broker_name for item in receipt.configs if item.result is Result.NOT_ATTEMPTED]
    parts += [f"the configuration at {name}" for name in sorted(configs)]
    if not parts:
        return ()
    text = f"{receipt.id} did not attempt {listed(parts)}: nothing has to be undone there."
    return (Consequence("NOT_ATTEMPTED", text),)


def _sent_back(receipt: Receipt) -> tuple[Consequence, ...]:
    """Return that messages that were sent back stay in the retry topic or among the dead letters."""
    count = sum(each.result in (Result.CONFIRMED, Result.UNKNOWN) for item in receipt.items for each in item.messages)
    if not count:
        return ()
    text = f"{counted(count, 'message', 'was')} sent back; this cannot be undone."
    return (Consequence("SENT_BACK", text),)


def _later_changes(later: Sequence[str]) -> tuple[Consequence, ...]:
    if not later:
        return ()
    what = f"{counted(len(later), 'later change')} {'is' if len(later) == 1 else 'are'}"
    return (Consequence("LATER_CHANGES", f"{what} overwritten as well: {listed(later)}."),)


def find_later(journal: Journal, receipt: Receipt) -> list[str]:
    """Return the later changes of this machine that changed the same things, the last one started first."""
    own = _changed(receipt)
    found = []
    for change in _since(journal.history(name=receipt.subject.name), receipt):
        other = journal.receipt(change.receipt_id)
        if other is not None and own & _changed(other):
            found.append(other.id)
    return found


def with_later_observations(journal: Journal, receipt: Receipt) -> Receipt:
    """Return a receipt in which an unknown write is confirmed if a later change of this machine found its target.

    That is the case after an undo that saw the write and reverted it.
    """
    results = [item.result for item in receipt.items] + [item.result for item in receipt.configs]
    if Result.UNKNOWN not in results:
        return receipt
    others = [
        journal.receipt(change.receipt_id) for change in _since(journal.history(name=receipt.subject.name), receipt)
    ]
    offsets = {(item.mq, item.before) for other in others if other is not None for item in other.items}
    configs = [item for other in others if other is not None for item in other.configs]
    return replace(
        receipt,
        items=tuple(_seen(item) if (item.mq, item.target) in offsets else item for item in receipt.items),
        configs=tuple(
            _seen(item)
            if any(other.broker_name == item.broker_name and holds(item.target, other.before) for other in configs)
            else item
            for item in receipt.configs
        ),
    )


def _seen(item: _Item) -> _Item:
    if item.result is not Result.UNKNOWN or item.before == item.target:
        return item
    return replace(item, result=Result.CONFIRMED, after=item.target, is_after_known=True)


def _since(changes: Sequence[Change], receipt: Receipt) -> Sequence[Change]:
    """Return the changes of the same group or topic that the journal noted after a receipt's, the newest first.

    The journal's order decides, not the clock, which may have been set back. For the receipt of another machine only
    the clock is known.
    """
    changes = [change for change in changes if change.subject == receipt.subject]
    ids = [change.receipt_id for change in changes]
    if receipt.id in ids:
        return changes[: ids.index(receipt.id)]
    return [change for change in changes if change.started_at_ms >= receipt.started_at_ms]


def _changed(receipt: Receipt) -> set[tuple[str, str, int]]:
    """Return (broker name, topic, queue id) of all that was, or may have been, changed; no topic for a group itself."""
    done = (Result.CONFIRMED, Result.UNKNOWN)
    # A queue of the dead-letter topic can have an offset; the topic's configuration gets a queue id of its own.
    topic, queue_id = ("", 0)
    if receipt.operation is Operation.DLQ_FIX_PERMISSION:
        topic, queue_id = dead_letter_topic(receipt.group), -1
    elif receipt.topic is not None:
        topic, queue_id = receipt.topic, -1
    return {
        (item.mq.broker_name, item.mq.topic, item.mq.queue_id) for item in receipt.items if item.may_have_changed
    } | {
        (item.broker_name, topic, queue_id)
        for item in receipt.configs
        if item.result in done and item.before != item.target
    }
