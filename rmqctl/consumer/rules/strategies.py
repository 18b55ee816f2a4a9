"""The strategies that members of a group can use, each by itself."""

from __future__ import annotations

from rmqctl.errors import UsageError
from rmqctl.rules.allocate import AllocationError, Strategy, find_strategy
from rmqctl.rules.allocate.strategies import canonical_name

# Strategies whose inputs each member would see differently, and why.
NOT_ALONE = {
    "sticky": "it depends on the previous owner of each queue, which members do not know",
    "lag-weighted": "it depends on lags, which each member would read at a different time",
    "pop-share": "brokers share queues this way, among clients that pop",
}


def member_strategy(name: str) -> Strategy:
    """Return a strategy without options by its name. Raises UsageError for one that members cannot use."""
    canonical = canonical_name(name)
    if canonical in NOT_ALONE:
        raise UsageError(f"The strategy {name} is not supported for members: {NOT_ALONE[canonical]}.")
    try:
        return find_strategy(name)
    except AllocationError as error:
        raise UsageError(str(error), hint=error.hint) from None
