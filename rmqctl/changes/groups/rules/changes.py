"""Which operations change configurations, and which operation reverts each of them."""

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
    """Tell whether an operation changes the configuration of a group or its dead-letter topic, not just offsets."""
    return operation in WAYS_BACK


def operation_name(operation: Operation, asked: str) -> str:
    """Return the name of a change; one that reverts another change is named after that one."""
    if asked.startswith("undo ") and is_group_change(operation):
        undone = next(each for each, back in WAYS_BACK.items() if back is operation)
        return f"undo of {undone}"
    return operation.value
