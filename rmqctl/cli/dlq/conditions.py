"""Which dead letters are wanted: the options that the commands share."""

# No "from __future__ import annotations" here: the fields of LetterConditions would be texts to evaluate.
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from rmqctl.cli.output.message_options import MessageConditions, not_empty

if TYPE_CHECKING:
    from rmqctl.admin.messages.filter import MessageFilter
    from rmqctl.cli.invocation import Invocation
    from rmqctl.cli.output.body import BodyStyle

    from .body_match import BodyMatch


class LetterQuery(Struct, frozen=True):
    """The requested dead letters of a group: conditions on the message, and one on its body."""

    group: str
    filter: "MessageFilter"
    match: "BodyMatch | None" = None

    @property
    def is_narrowed(self) -> bool:
        """Whether there is any condition."""
        from rmqctl.admin.messages.filter import MessageFilter

        return self.match is not None or self.filter != MessageFilter()


class LetterConditions(MessageConditions, frozen=True, kw_only=True):
    """The conditions that a dead letter has to meet, all of them."""

    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Originally sent to this topic. Repeatable.")
    ] = None
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="With this message id, new or original. Repeatable.")
    ] = None
    body_match: Annotated[
        str | None, typer.Option("--body-match", metavar="EXPR", help="With a JSON body that matches this JMESPath.")
    ] = None

    def wanted(self, invocation: "Invocation", group: str, style: "BodyStyle") -> LetterQuery:
        """Return the dead letters of a group that these options select. Raises UsageError."""
        match = None
        if (expression := not_empty("--body-match", self.body_match)) is not None:
            from .body_match import BodyMatch

            match = BodyMatch(expression, style)
        wanted = replace(
            self.filter(),
            ids=frozenset(self.ids or ()),
            origin_topics=frozenset(invocation.full_name(topic) for topic in self.topics or ()),
        )
        return LetterQuery(invocation.full_name(group), wanted, match)
