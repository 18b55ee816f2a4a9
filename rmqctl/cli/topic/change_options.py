"""The options of the commands that change a topic's configuration."""

# No "from __future__ import annotations" here: the fields of TopicSettings would be texts to evaluate.
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.text.wildcards import is_pattern

if TYPE_CHECKING:
    from rmqctl.changes.configs.rules.fields import ConfigChanges
    from rmqctl.cli.invocation import Invocation

# PermName, by the words that --perm accepts.
_PERMISSIONS = {"rw": 6, "r": 4, "w": 2, "none": 0, "6": 6, "4": 4, "2": 2, "0": 0}
# The attributes of a topic that have an option (TopicAttributes of 5.x).
_TYPE, _CLEANUP = "+message.type", "+cleanup.policy"


class TopicSettings(Struct, frozen=True, kw_only=True):
    """The requested changes of a topic's configuration."""

    queues: Annotated[
        int | None, typer.Option("--queues", metavar="N", help="readQueueNums and writeQueueNums: queues per broker.")
    ] = None
    read_queues: Annotated[
        int | None, typer.Option("--read-queues", metavar="N", help="readQueueNums: queues that consumers read.")
    ] = None
    write_queues: Annotated[
        int | None, typer.Option("--write-queues", metavar="N", help="writeQueueNums: queues that producers send to.")
    ] = None
    perm: Annotated[
        str | None, typer.Option("--perm", metavar="PERM", help="perm: rw, r, w or none; or 6, 4, 2 or 0.")
    ] = None
    type_: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="message.type: NORMAL, FIFO, DELAY, TRANSACTION or another (5.x)."),
    ] = None
    cleanup: Annotated[
        str | None,
        typer.Option("--cleanup", metavar="POLICY", help="cleanup.policy: DELETE or COMPACTION, when created (5.x)."),
    ] = None
    order: Annotated[
        bool | None, typer.Option("--order/--no-order", help="order: whether it is meant for ordered messages (5.x).")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Set any field; +NAME=VALUE and -NAME for attributes. Repeatable."
        ),
    ] = None

    def changes(self) -> "ConfigChanges":
        """Return the changes by field. Raises UsageError."""
        from rmqctl.changes.configs.rules.fields import TOPIC, parse_changes

        if self.queues is not None and (self.read_queues is not None or self.write_queues is not None):
            raise UsageError("--queues sets both numbers: use it without --read-queues and --write-queues.")
        return parse_changes(
            self.settings or (),
            {
                "readQueueNums": self.read_queues if self.queues is None else self.queues,
                "writeQueueNums": self.write_queues if self.queues is None else self.queues,
                "perm": None if self.perm is None else _permission(self.perm),
                "order": self.order,
                _TYPE: None if self.type_ is None else self.type_.upper(),
                _CLEANUP: None if self.cleanup is None else self.cleanup.upper(),
            },
            TOPIC,
        )


def _permission(text: str) -> int:
    if text.lower() not in _PERMISSIONS:
        raise UsageError(f"Invalid permission {text!r}.", hint="Use rw, r, w or none.")
    return _PERMISSIONS[text.lower()]


def topic_name(invocation: "Invocation", topic: str) -> str:
    """Return the full name of a topic. Raises UsageError for a pattern: a change needs exact names."""
    if is_pattern(topic):
        raise UsageError(f"TOPIC {topic}: a change accepts no wildcards.", hint="Name one topic.")
    return invocation.full_name(topic)
