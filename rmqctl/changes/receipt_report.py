"""The result of applying a plan."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from rmqctl.errors import NotAuthorisedError, RmqctlError, UnreachableError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.plan import Plan
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, ReceiptItem, Result, Who


class ReceiptReport(Struct, frozen=True):
    """The receipt of a plan, and what failed on the way."""

    receipt: Receipt
    failures: tuple[Failure, ...]

    @property
    def exit_code(self) -> int:
        """0 if all is confirmed, 8 if only a part was done, 9 if something is not confirmed, else an error's code."""
        results = {item.result for item in self.receipt.items} | {item.result for item in self.receipt.configs}
        codes = {failure.error.exit_code for failure in self.failures}
        if NotAuthorisedError.exit_code in codes:
            return NotAuthorisedError.exit_code
        if results <= {Result.CONFIRMED}:
            return 8 if self.failures else 0
        if results & {Result.UNCHANGED, Result.NOT_ATTEMPTED}:
            if results & {Result.CONFIRMED, Result.UNKNOWN}:
                return 8
            return UnreachableError.exit_code if codes == {UnreachableError.exit_code} else 1
        return 9


def receipt_of(
    plan: Plan, receipt_id: str, plan_sha256: str, started_at_ms: int, ended_at_ms: int, who: Who, *,
    items: tuple[ReceiptItem, ...], configs: tuple[ConfigReceiptItem, ...] = (),
) -> Receipt:  # fmt: skip
    """Return the receipt of a plan, with the result of each item."""
    return Receipt(
        id=receipt_id,
        plan_id=plan.id,
        plan_sha256=plan_sha256,
        operation=plan.operation,
        started_at_ms=started_at_ms,
        ended_at_ms=ended_at_ms,
        cluster=plan.cluster,
        brokers=plan.brokers,
        group=plan.group,
        route=plan.route,
        asked=plan.asked,
        reason=plan.reason,
        who=who,
        items=items,
        configs=configs,
    )


def write_to_journal(what_came: Callable[[], None], failures: list[Failure]) -> None:
    """Write a result to the journal; note a failure instead of raising it, so that the receipt is shown in any case."""
    try:
        what_came()
    except RmqctlError as error:
        failure = Failure(None, "the journal of this change", error, Attempt.WRITE)
        # The next result is written again, and may fail again; one failure is enough.
        if not any(_is_same(failure, other) for other in failures):
            failures.append(failure)


def _is_same(one: Failure, other: Failure) -> bool:
    return (one.broker_name, one.what, one.error.sentence) == (other.broker_name, other.what, other.error.sentence)
