"""Allocation by configuration: every client gets its configured queues, even if others have them too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqctl.model.queue import MessageQueue

from .base import AllocationError, Assignment


def allocate_by_config(
    queues: Sequence[MessageQueue],  # noqa: ARG001 - RocketMQ's class ignores them too
    client_ids: Sequence[str],
    *,
    configured: Sequence[MessageQueue] | Mapping[str, Sequence[MessageQueue]],
) -> Assignment:
    """Give every client the configured queues, unchecked (AllocateMessageQueueByConfig).

    A mapping has the queues by client; a client that is missing in it gets nothing. Raises AllocationError for a client
    that does not exist.
    """
    if isinstance(configured, Mapping):
        known = set(client_ids)
        for client_id in configured:
            if client_id not in known:
                raise AllocationError(f"Queues are configured for client {client_id}, which is not in the group.")
        return {client_id: list(configured.get(client_id, ())) for client_id in client_ids}
    return {client_id: list(configured) for client_id in client_ids}
