"""The options of the commands that change a group's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

Brokers = Annotated[
    list[str] | None,
    typer.Option("--broker", metavar="BROKER", help="Only on this broker. May be repeated. [default: all masters]"),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Set any field; +NAME=VALUE and -NAME for attributes."),
]
RetryQueues = Annotated[
    int | None, typer.Option("--retry-queues", metavar="N", help="retryQueueNums: queues of the retry topic.")
]
Retries = Annotated[
    int | None,
    typer.Option("--retries", metavar="N", help="retryMaxTimes: retries before a message becomes a dead letter."),
]
Consume = Annotated[
    bool | None, typer.Option("--consume/--no-consume", help="consumeEnable: whether members may pull.")
]
Broadcast = Annotated[
    bool | None,
    typer.Option(
        "--broadcast/--no-broadcast", help="consumeBroadcastEnable: whether members in broadcasting mode may pull."
    ),
]
Orderly = Annotated[
    bool | None, typer.Option("--orderly/--no-orderly", help="consumeMessageOrderly: in order, for pop clients (5.x).")
]
Notify = Annotated[
    bool | None,
    typer.Option(
        "--notify/--no-notify", help="notifyConsumerIdsChangedEnable: notify members when a member joins or leaves."
    ),
]


def named_fields(
    *, retry_queues: int | None, retries: int | None, consume: bool | None, broadcast: bool | None,
    orderly: bool | None, notify: bool | None,
) -> Mapping[str, Any]:  # fmt: skip
    """Return the values of these options by the fields that they set."""
    return {
        "retryQueueNums": retry_queues,
        "retryMaxTimes": retries,
        "consumeEnable": consume,
        "consumeBroadcastEnable": broadcast,
        "consumeMessageOrderly": orderly,
        "notifyConsumerIdsChangedEnable": notify,
    }


def asked_words(changes: Sequence[str], brokers: Sequence[str], *more: str) -> str:
    """Return the request in the words of the command line."""
    return " ".join([*more, *changes, *(f"--broker {name}" for name in brokers)])
