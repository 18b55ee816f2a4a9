"""rmqctl completion: the script that completes words in a shell."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

from rmqctl.cli.completion_scripts import SCRIPTS
from rmqctl.errors import UsageError
from rmqctl.rules.names import closest

HELP = """\b
Examples:
  rmqctl completion bash > ~/.local/share/bash-completion/completions/rmqctl
  rmqctl completion zsh > "${fpath[1]}/_rmqctl"
  rmqctl completion fish > ~/.config/fish/completions/rmqctl.fish
  source <(rmqctl completion bash)              this shell only

Completes commands, options, their values, contexts, and the names of groups, topics and brokers that group list, topic
list and cluster list have seen last. It asks no cluster and is silent whatever goes wrong."""


def command(
    ctx: typer.Context,  # noqa: ARG001
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    if shell not in SCRIPTS:
        like = closest(shell, SCRIPTS)
        hint = f"Did you mean {like[0]}?" if like else f"Known are {', '.join(SCRIPTS)}."
        raise UsageError(f"There is no completion for {shell!r}.", hint=hint)
    typer.echo(SCRIPTS[shell], nl=False)
    return 0
