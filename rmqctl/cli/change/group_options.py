"""Options of the commands that change a group's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

Brokers = Annotated[
    list[str] | None,
    typer.Option("--broker", metavar="BROKER", help="Only at this one. May be repeated. [default: all masters]"),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Any field; +NAME=VALUE and -NAME for attributes."),
]
RetryQueues = Annotated[
    int | None, typer.Option("--retry-queues", metavar="N", help="retryQueueNums: queues of its retry topic.")
]
Retries = Annotated[
    int | None, typer.Option("--retries", metavar="N", help="retryMaxTimes: tries before a message is a dead letter.")
]
Consume = Annotated[
    bool | None, typer.Option("--consume/--no-consume", help="consumeEnable: whether it may pull at all.")
]
Broadcast = Annotated[
    bool | None, typer.Option("--broadcast/--no-broadcast", help="consumeBroadcastEnable: in broadcasting mode.")
]
Orderly = Annotated[
    bool | None, typer.Option("--orderly/--no-orderly", help="consumeMessageOrderly, for popping clients (5.x).")
]
Notify = Annotated[
    bool | None, typer.Option("--notify/--no-notify", help="notifyConsumerIdsChangedEnable: tell who joins and leaves.")
]


def named_fields(
    *, retry_queues: int | None, retries: int | None, consume: bool | None, broadcast: bool | None,
    orderly: bool | None, notify: bool | None,
) -> Mapping[str, Any]:  # fmt: skip
    """Return these options by the fields that they set."""
    return {
        "retryQueueNums": retry_queues,
        "retryMaxTimes": retries,
        "consumeEnable": consume,
        "consumeBroadcastEnable": broadcast,
        "consumeMessageOrderly": orderly,
        "notifyConsumerIdsChangedEnable": notify,
    }


def asked_words(changes: Sequence[str], brokers: Sequence[str], *more: str) -> str:
    """Return what was asked for, as a command line says it."""
    return " ".join([*more, *changes, *(f"--broker {name}" for name in brokers)])
