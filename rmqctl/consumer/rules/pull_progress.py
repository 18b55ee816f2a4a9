"""The offset that a pull commits, and the progress after a pull without messages."""

from __future__ import annotations


def offset_to_commit(memory_offset: int | None, *, is_clustering: bool, is_slave: bool) -> int | None:
    """Return the offset that a pull commits, None when it has no commit flag (DefaultMQPushConsumerImpl.pullMessage).

    A pull never commits offset 0. It commits nothing to slaves (PullSysFlag.clearCommitOffsetFlag), and nothing at all
    when broadcasting.
    """
    if is_clustering and not is_slave and memory_offset is not None and memory_offset > 0:
        return memory_offset
    return None


def offset_without_messages(next_begin_offset: int, *, cached_count: int) -> int | None:
    """Return the offset to raise progress to after NO_NEW_MSG or NO_MATCHED_MSG, None to keep it (correctTagsOffset).

    While messages are in flight, the smallest of them is the progress. Otherwise everything before the next pull's
    offset is consumed: without this, progress would stop at a filter that matches nothing.
    """
    return next_begin_offset if cached_count == 0 else None
