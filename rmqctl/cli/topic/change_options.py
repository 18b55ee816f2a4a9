"""What the commands that change a topic share: options, and the way from a request to its result."""

# No "from __future__ import annotations" here: the fields of TopicSettings would be texts to evaluate.
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from rmqctl.cli.change.group_options import request_words
from rmqctl.cli.change.options import Consent, topic_name
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from rmqctl.changes.configs.rules.fields import ConfigChanges
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.changes.topics.plan import TopicRequest
    from rmqctl.cli.invocation import Invocation
    from rmqctl.client.core import Client

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


def change_topic(
    invocation: "Invocation", topic: str, brokers: Sequence[str] | None, settings: TopicSettings | None,
    consent: Consent, make: "Callable[[Client, TopicRequest], Awaitable[PlanReport]]", *,
    needs_change: bool = False,
) -> int:  # fmt: skip
    """Make a plan for a topic, and apply it with consent. Returns the exit code. `settings`: None for a deletion.

    `needs_change`: raise UsageError if no field is to be set.
    """
    from rmqctl.changes.configs.rules.fields import ConfigChanges
    from rmqctl.changes.topics.plan import TopicRequest
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.model.plan import Subject

    name, names = topic_name(invocation, topic), tuple(brokers or ())
    check_consent(invocation, Subject("", name), consent, is_config_change=True)
    changes = ConfigChanges() if settings is None else settings.changes()
    if needs_change and not changes.names:
        raise UsageError("No change is given.", hint="Add for example --queues 16, or --set FIELD=VALUE for any field.")
    request = TopicRequest(name, changes, names, request_words(changes.words, names), consent.reason)
    return confirm_and_apply(invocation, invocation.ask(lambda client: make(client, request)), consent)
