"""The option of all commands about a running sandbox."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

Port = Annotated[
    int | None, typer.Option("--port", metavar="PORT", help="Port of its name server.", show_default=False)
]
