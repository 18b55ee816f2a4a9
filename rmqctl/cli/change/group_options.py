"""The options of the commands that change a group's configuration."""

# No "from __future__ import annotations" here: the fields of GroupSettings would be texts to evaluate.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

if TYPE_CHECKING:
    from rmqctl.changes.configs.rules.fields import ConfigChanges

Brokers = Annotated[
    list[str] | None,
    typer.Option("--broker", metavar="BROKER", help="Only on this broker. Repeatable. [default: all masters]"),
]


class GroupSettings(Struct, frozen=True, kw_only=True):
    """The requested changes of a group's configuration."""

    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Set any field; +NAME=VALUE and -NAME for attributes. Repeatable."
        ),
    ] = None
    retry_queues: Annotated[
        int | None, typer.Option("--retry-queues", metavar="N", help="retryQueueNums: queues of the retry topic.")
    ] = None
    retries: Annotated[
        int | None,
        typer.Option("--retries", metavar="N", help="retryMaxTimes: retries before a message becomes a dead letter."),
    ] = None
    consume: Annotated[
        bool | None, typer.Option("--consume/--no-consume", help="consumeEnable: whether members may pull.")
    ] = None
    broadcast: Annotated[
        bool | None,
        typer.Option(
            "--broadcast/--no-broadcast",
            help="consumeBroadcastEnable: whether members in broadcasting mode may pull.",
        ),
    ] = None
    orderly: Annotated[
        bool | None,
        typer.Option("--orderly/--no-orderly", help="consumeMessageOrderly: in order, for pop clients (5.x)."),
    ] = None
    notify: Annotated[
        bool | None,
        typer.Option(
            "--notify/--no-notify",
            help="notifyConsumerIdsChangedEnable: notify members when a member joins or leaves.",
        ),
    ] = None

    def changes(self) -> "ConfigChanges":
        """Return the changes by field. Raises UsageError."""
        from rmqctl.changes.configs.rules.fields import parse_changes

        return parse_changes(
            self.settings or (),
            {
                "retryQueueNums": self.retry_queues,
                "retryMaxTimes": self.retries,
                "consumeEnable": self.consume,
                "consumeBroadcastEnable": self.broadcast,
                "consumeMessageOrderly": self.orderly,
                "notifyConsumerIdsChangedEnable": self.notify,
            },
        )


def request_words(changes: Sequence[str], brokers: Sequence[str], *more: str) -> str:
    """Return the request in the words of the command line."""
    return " ".join([*more, *changes, *(f"--broker {name}" for name in brokers)])
