"""Which operations change configurations, and which one takes each of them back."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.model.plan import Operation

WAYS_BACK: Mapping[Operation, Operation] = {
    Operation.GROUP_CREATE: Operation.GROUP_DELETE,
    Operation.GROUP_UPDATE: Operation.GROUP_UPDATE,
    Operation.GROUP_DELETE: Operation.GROUP_CREATE,
    Operation.DLQ_FIX_PERMISSION: Operation.DLQ_FIX_PERMISSION,
}


def is_group_change(operation: Operation) -> bool:
    """Tell a change of a group's configuration, or its dead-letter topic's, from one of offsets alone."""
    return operation in WAYS_BACK


def operation_name(operation: Operation, asked: str) -> str:
    """Return what a change is called: one that takes another one back is named after that one."""
    if asked.startswith("undo ") and is_group_change(operation):
        undone = next(each for each, back in WAYS_BACK.items() if back is operation)
        return f"undo of {undone}"
    return operation.value
