"""Queues by configuration: every client takes what it was told, whoever else has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqctl.model.queue import MessageQueue

from .base import AllocationError, Assignment


def allocate_by_config(
    queues: Sequence[MessageQueue],  # noqa: ARG001 - the class does not look at them either
    client_ids: Sequence[str],
    *,
    configured: Sequence[MessageQueue] | Mapping[str, Sequence[MessageQueue]],
) -> Assignment:
    """Give every client the configured queues, unchecked (AllocateMessageQueueByConfig).

    A mapping has each client's own; who is not in it gets nothing. Raises AllocationError for a client that there is
    not.
    """
    if isinstance(configured, Mapping):
        known = set(client_ids)
        for client_id in configured:
            if client_id not in known:
                raise AllocationError(f"Queues are configured for client {client_id}, which is none of the group's.")
        return {client_id: list(configured.get(client_id, ())) for client_id in client_ids}
    return {client_id: list(configured) for client_id in client_ids}
