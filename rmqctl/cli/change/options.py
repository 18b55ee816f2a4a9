"""The options of all commands that change something."""

# No "from __future__ import annotations" here: the fields of Consent would be texts to evaluate.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from rmqctl.cli.arguments import seconds_option
from rmqctl.cli.option_blocks import without
from rmqctl.errors import UsageError
from rmqctl.text.wildcards import is_pattern

if TYPE_CHECKING:
    from rmqctl.cli.invocation import Invocation

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Confirm = Annotated[
    str | None,
    typer.Option("--confirm", metavar="NAME", help="The name of what is changed, as consent in a protected context."),
]
AssumeSameCluster = Annotated[
    bool, typer.Option("--assume-same-cluster", help="Assume that brokers with other addresses have only moved.")
]


class Consent(Struct, frozen=True, kw_only=True):
    """How far a command may go: what it assumes, whether it shows, saves, asks or applies, and how it verifies.

    With `partial` it may also change a group of which only a part was read.
    """

    assume_offline: Annotated[
        bool,
        typer.Option("--assume-offline", help="Assume that the group is offline if its state cannot be determined."),
    ] = False
    strict: Annotated[bool, typer.Option("--strict", help="Treat any change since the plan was made as drift.")] = False
    wait_stable: Annotated[
        str | None,
        typer.Option(
            "--wait-stable",
            metavar="DURATION",
            help="How long to wait until the group resumes from the new offsets. [default: 60s, longer for pushes]",
        ),
    ] = None
    partial: Annotated[
        bool,
        typer.Option(
            "--partial/--all-or-nothing",
            help="If a broker is missing or does not answer: change the rest, or refuse.",
        ),
    ] = False
    expect_queues: Annotated[
        int | None,
        typer.Option("--expect-queues", metavar="N", min=1, help="Refuse unless the plan has exactly N queues."),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False
    plan_path: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="Save the plan for rmqctl apply, and change nothing.")
    ] = None
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why the change is made, for the journal.")
    ] = None
    confirm: Confirm = None
    yes: Yes = False

    @property
    def is_plan_only(self) -> bool:
        """Whether the command only makes a plan."""
        return self.dry_run or self.plan_path is not None

    @property
    def wait_s(self) -> float | None:
        """How long to wait for the group, in s; None for the default."""
        return None if self.wait_stable is None else seconds_option("--wait-stable", self.wait_stable)

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid time, before the cluster is asked."""
        _ = self.wait_s


ConfigConsent = Annotated[Consent, without("assume_offline", "strict", "wait_stable", "expect_queues")]
"""Consent to a change of a group's configuration, after which no client has to resume."""


def group_name(invocation: "Invocation", group: str) -> str:
    """Return the full name of a group. Raises UsageError for a pattern: a change needs exact names."""
    return invocation.full_name(exact_name("group", group))


def topic_name(invocation: "Invocation", topic: str) -> str:
    """Return the full name of a topic, as group_name()."""
    return invocation.full_name(exact_name("topic", topic))


def exact_name(kind: str, name: str) -> str:
    """Return the name of what is changed. Raises UsageError for a pattern."""
    if is_pattern(name):
        raise UsageError(f"{kind.upper()} {name}: a change accepts no wildcards.", hint=f"Name one {kind}.")
    return name


def topic_names(invocation: "Invocation", topics: Sequence[str] | None) -> tuple[str, ...]:
    """Return the full names of topics. Raises UsageError for patterns: a change needs exact names."""
    for topic in topics or ():
        if is_pattern(topic):
            sentence = f"--topic {topic}: a change accepts no wildcards."
            raise UsageError(sentence, hint="Name each topic; --topic may be repeated.")
    return tuple(invocation.full_name(topic) for topic in topics or ())
