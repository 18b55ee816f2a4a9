"""The options of all commands that change something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from rmqctl.cli.durations import seconds_option
from rmqctl.errors import UsageError
from rmqctl.text.wildcards import is_pattern

if TYPE_CHECKING:
    from rmqctl.cli.invocation import Invocation

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")]
PlanFile = Annotated[
    str | None, typer.Option("--plan", metavar="FILE", help="Save the plan for rmqctl apply, and change nothing.")
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why the change is made, for the journal.")
]
Confirm = Annotated[
    str | None, typer.Option("--confirm", metavar="GROUP", help="The group's name, as consent in a protected context.")
]
WaitStable = Annotated[
    str | None,
    typer.Option(
        "--wait-stable",
        metavar="TIME",
        help="How long to wait until the group resumes from the new offsets. [default: 60s, longer for pushes]",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat any change since the plan was made as drift.")]
AssumeOffline = Annotated[
    bool, typer.Option("--assume-offline", help="Assume that the group is offline if its state cannot be determined.")
]
AssumeSameCluster = Annotated[
    bool, typer.Option("--assume-same-cluster", help="Assume that brokers with other addresses have only moved.")
]


Partial = Annotated[
    bool,
    typer.Option(
        "--partial/--all-or-nothing",
        help="If a broker is missing or does not answer: change the rest, or refuse.",
    ),
]
ExpectQueues = Annotated[
    int | None,
    typer.Option("--expect-queues", metavar="N", min=1, help="Refuse unless the plan has exactly N queues."),
]


class Consent(Struct, frozen=True):
    """How far a command may go: show, save, ask or apply; with `partial` also if only a part of a group was read."""

    yes: bool = False
    dry_run: bool = False
    plan_path: str | None = None
    confirm: str | None = None
    partial: bool = False

    @property
    def is_plan_only(self) -> bool:
        """Whether the command only makes a plan."""
        return self.dry_run or self.plan_path is not None


def group_name(invocation: Invocation, group: str) -> str:
    """Return the full name of a group. Raises UsageError for a pattern: a change needs exact names."""
    if is_pattern(group):
        raise UsageError(f"GROUP {group}: a change accepts no wildcards.", hint="Name one group.")
    return invocation.full_name(group)


def topic_names(invocation: Invocation, topics: Sequence[str] | None) -> tuple[str, ...]:
    """Return the full names of topics. Raises UsageError for patterns: a change needs exact names."""
    for topic in topics or ():
        if is_pattern(topic):
            sentence = f"--topic {topic}: a change accepts no wildcards."
            raise UsageError(sentence, hint="Name each topic; --topic may be repeated.")
    return tuple(invocation.full_name(topic) for topic in topics or ())


def wait_s(text: str | None) -> float | None:
    """Return how long to wait for a group, in s; None for the default. Raises UsageError."""
    return None if text is None else seconds_option("--wait-stable", text)
