"""rmqctl completion: print the completion script for a shell."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

from rmqctl.errors import UsageError
from rmqctl.text.names import hint_for

from .scripts import SCRIPTS

HELP = """\b
Examples:
  rmqctl completion bash > ~/.local/share/bash-completion/completions/rmqctl
  rmqctl completion zsh > "${fpath[1]}/_rmqctl"
  rmqctl completion fish > ~/.config/fish/completions/rmqctl.fish
  source <(rmqctl completion bash)              # this shell only

The script completes commands, options and their values, contexts, and the names of groups, topics and brokers that
group list, topic list and cluster list last returned. It never contacts a cluster, and prints no errors."""


def command(
    ctx: typer.Context,  # noqa: ARG001
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    if shell not in SCRIPTS:
        hint = hint_for(shell, SCRIPTS)
        raise UsageError(f"Unknown shell {shell!r}.", hint=hint)
    typer.echo(SCRIPTS[shell], nl=False)
    return 0
