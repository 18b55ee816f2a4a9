"""What about a group needs attention, from what the brokers' tables tell of it."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.model.group import GroupConfig, GroupFinding, GroupState

from .group_views import differing_fields


def find_group_findings(
    state: GroupState, *, lag: int, lost: int, has_beyond_max: bool, has_unreadable: bool, do_brokers_differ: bool,
    has_leftovers: bool, configs: Sequence[GroupConfig],
) -> tuple[GroupFinding, ...]:  # fmt: skip
    """Return what is certain, the worst first. `lag` and `lost` are what is known at least; `configs` one a broker."""
    found = {
        GroupFinding.LOST: lost > 0,
        GroupFinding.LAG_WITHOUT_MEMBERS: lag > 0 and state is GroupState.EMPTY,
        GroupFinding.OFFSET_BEYOND_MAX: has_beyond_max,
        GroupFinding.UNREADABLE_QUEUES: has_unreadable,
        GroupFinding.BROKERS_DIFFER: do_brokers_differ,
        GroupFinding.CONSUME_DISABLED: any(not config.consume_enable for config in configs),
        GroupFinding.NO_RETRY_QUEUES: any(config.retry_queue_count <= 0 for config in configs),
        GroupFinding.CONFIGS_DIFFER: len(configs) > 1 and bool(differing_fields(configs)),
        GroupFinding.LEFTOVER_OFFSETS: has_leftovers,
    }
    return tuple(finding for finding, is_found in found.items() if is_found)
