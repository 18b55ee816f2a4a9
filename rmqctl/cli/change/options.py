"""Options of all commands that change something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from rmqctl.cli.durations import seconds_option
from rmqctl.errors import UsageError
from rmqctl.rules.wildcards import is_pattern

if TYPE_CHECKING:
    from rmqctl.cli.invocation import Invocation

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")]
PlanFile = Annotated[
    str | None, typer.Option("--plan", metavar="FILE", help="Save the plan for rmqctl apply, and change nothing.")
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; it goes into the journal.")]
Confirm = Annotated[
    str | None, typer.Option("--confirm", metavar="GROUP", help="The group's name again, for a protected context.")
]
WaitStable = Annotated[
    str | None,
    typer.Option(
        "--wait-stable",
        metavar="TIME",
        help="How long the group may take to go there. [default: 60s, longer for pushes]",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Take any change since the plan for drift.")]
AssumeOffline = Annotated[
    bool, typer.Option("--assume-offline", help="Take it that nobody consumes, where that can't be seen.")
]
AssumeSameCluster = Annotated[
    bool, typer.Option("--assume-same-cluster", help="Take it that brokers with other addresses have only moved.")
]


Partial = Annotated[
    bool,
    typer.Option(
        "--partial/--all-or-nothing",
        help="Change what can be seen when a broker is missing or silent, or refuse.",
    ),
]
ExpectQueues = Annotated[
    int | None,
    typer.Option("--expect-queues", metavar="N", min=1, help="Refuse unless the plan is about N queues."),
]


class Consent(Struct, frozen=True):
    """How far a command may go: show, save, ask, or do; with `partial` also where only a part of a group was seen."""

    yes: bool = False
    dry_run: bool = False
    plan_path: str | None = None
    confirm: str | None = None
    partial: bool = False

    @property
    def is_plan_only(self) -> bool:
        """Whether nothing is to be changed."""
        return self.dry_run or self.plan_path is not None


def group_name(invocation: Invocation, group: str) -> str:
    """Return the full name of a group. Raises UsageError for a pattern: what is changed is named."""
    if is_pattern(group):
        raise UsageError(f"GROUP {group}: a change accepts no wildcards.", hint="Name one group.")
    return invocation.full_name(group)


def topic_names(invocation: Invocation, topics: Sequence[str] | None) -> tuple[str, ...]:
    """Return the full names of topics. Raises UsageError for patterns: what is changed is named."""
    for topic in topics or ():
        if is_pattern(topic):
            sentence = f"--topic {topic}: a change accepts no wildcards."
            raise UsageError(sentence, hint="Name each topic; --topic may be repeated.")
    return tuple(invocation.full_name(topic) for topic in topics or ())


def wait_s(text: str | None) -> float | None:
    """Return how long to wait for a group, in s; None for as long as it can take. Raises UsageError."""
    return None if text is None else seconds_option("--wait-stable", text)
