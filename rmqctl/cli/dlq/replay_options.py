"""Options that `dlq replay` and the job `dlq-replay` share."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

ToOrigin = Annotated[bool, typer.Option("--to-origin", help="Send each to its original topic.")]
ToTopic = Annotated[
    str | None, typer.Option("--to-topic", metavar="TOPIC", help="Send all to this topic.", show_default=False)
]
LedgerName = Annotated[str, typer.Option("--ledger", metavar="NAME", help="Use the ledger of this name.")]
