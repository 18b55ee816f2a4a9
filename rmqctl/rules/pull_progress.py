"""What a pull says of a group's progress, and what its answer does to it, where it brings no messages."""

from __future__ import annotations


def offset_to_commit(memory_offset: int | None, *, is_clustering: bool, is_slave: bool) -> int | None:
    """Return the offset that a pull commits, None when it has no commit flag (DefaultMQPushConsumerImpl.pullMessage).

    Offset 0 is never committed by a pull. Slaves are told nothing (PullSysFlag.clearCommitOffsetFlag), and when
    broadcasting no broker is.
    """
    if is_clustering and not is_slave and memory_offset is not None and memory_offset > 0:
        return memory_offset
    return None


def offset_without_messages(next_begin_offset: int, *, cached_count: int) -> int | None:
    """Return the offset to raise progress to after NO_NEW_MSG or NO_MATCHED_MSG, None to leave it (correctTagsOffset).

    While anything is in flight the smallest of it is the progress. Otherwise all before where the next pull begins is
    done: without this a filter that matches nothing would never get on.
    """
    return next_begin_offset if cached_count == 0 else None
