"""The options of `whatif` for groups, queues and strategies."""

# No "from __future__ import annotations" here: the fields of StrategyParameters would be texts to evaluate.
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from rmqctl.whatif.changes import QueueChange

RunningGroup = Annotated[str | None, typer.Argument(metavar="[GROUP]", help="A running group.", show_default=False)]
BrokerCount = Annotated[
    int | None, typer.Option("--brokers", metavar="N", help="Simulate a group on this number of brokers.")
]
ConsumerCount = Annotated[
    int | None, typer.Option("--consumers", metavar="N", help="Clients of the group to simulate.")
]

# The strategies that need no options.
_ALL = ("averagely", "circle", "consistent-hash", "sticky", "lag-weighted")


class StrategyParameters(Struct, frozen=True, kw_only=True):
    """The options of single strategies; `consume run` has them as well."""

    virtual_nodes: Annotated[
        int | None, typer.Option("--virtual-nodes", metavar="N", help="For consistent-hash: nodes per client.")
    ] = None
    room: Annotated[
        list[str] | None,
        typer.Option("--room", metavar="ROOM", help="For machine-room: room whose queues are shared. Repeatable."),
    ] = None
    site_of: Annotated[
        str | None,
        typer.Option(
            "--site-of", metavar="SIGN|NAME", help="For machine-room-nearby: sign after the room's name, or a plugin."
        ),
    ] = None
    inner: Annotated[
        str | None,
        typer.Option("--inner", metavar="STRATEGY", help="For machine-room-nearby and pop-share: inner strategy."),
    ] = None
    pop_share: Annotated[
        int | None, typer.Option("--pop-share", metavar="N", help="popShareQueueNum of pop-share.")
    ] = None

    def given(self) -> dict[str, Any]:
        """Return the given options, by their names in a spec."""
        given = {
            "virtual_nodes": self.virtual_nodes, "rooms": tuple(self.room or ()) or None, "site_of": self.site_of,
            "inner": self.inner, "share_count": self.pop_share,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value is not None}


def queue_words(words: Iterable[str]) -> "tuple[int | None, QueueChange | None]":
    """Return the number of queues per broker, and the change of that number. Raises UsageError."""
    from rmqctl.whatif.changes import parse_queue_change

    size: int | None = None
    change: QueueChange | None = None
    for word in words:
        text = word.strip()
        if text.isascii() and text.isdigit():
            if size is not None:
                raise UsageError("--queues gives the number of queues twice.")
            size = int(text.lstrip("0")[:10] or "0")
        else:
            if change is not None:
                raise UsageError("--queues changes the number of queues twice.")
            change = parse_queue_change(text)
    return size, change


def strategy_words(named: Sequence[str], compared: str | None) -> tuple[str, ...]:
    """Return the strategies to try, none for the group's own. Raises UsageError."""
    words = [*named]
    if compared is not None:
        parts = [part.strip() for part in compared.split(",") if part.strip()]
        if not parts:
            raise UsageError("--compare names no strategy.", hint="Use for example --compare averagely,circle, or all.")
        words += [word for part in parts for word in (_ALL if part == "all" else [part])]
    return tuple(dict.fromkeys(words))
