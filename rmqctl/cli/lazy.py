"""Command groups that import a command's module only when that command runs, or its own help is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from .globals import global_params
from .registry import COMMANDS, GROUPS


class LazyGroup(TyperGroup):
    """A group of the registry: `prefix` is "" for the root, else the group's word."""

    def __init__(self, prefix: str, **settings: Any) -> None:
        super().__init__(rich_markup_mode=None, **settings)
        self.prefix = prefix

    def _summaries(self) -> dict[str, str]:
        """Return the words of this group with their one-line help, in the registry's order."""
        if self.prefix:
            start = f"{self.prefix} "
            return {w.removeprefix(start): entry[1] for w, entry in COMMANDS.items() if w.startswith(start)}
        return {**GROUPS, **{words: entry[1] for words, entry in COMMANDS.items() if " " not in words}}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the words of this group."""
        return list(self._summaries())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Import and return one command, None for a word that there is not."""
        if not self.prefix and cmd_name in GROUPS:
            return LazyGroup(cmd_name, name=cmd_name, help=GROUPS[cmd_name], params=list(global_params()))
        entry = COMMANDS.get(f"{self.prefix} {cmd_name}".strip())
        return None if entry is None else load_command(cmd_name, *entry)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the list of commands from the registry's summaries, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries().items()))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without any word, show the help; that is no mistake."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(0)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of the first word; an unknown one gets a suggestion."""
        if args and not args[0].startswith("-") and args[0] not in self._summaries():
            words = f"{self.prefix} {args[0]}".strip()
            alike = [f"{self.prefix} {known}".strip() for known in get_close_matches(args[0], self._summaries(), n=1)]
            elsewhere = [known for known in COMMANDS if args[0] in known.split()]
            known = f" Did you mean {(alike or elsewhere)[0]}?" if alike or elsewhere else ""
            ctx.fail(f"No command {words!r}.{known}")
        return super().resolve_command(ctx, args)


class Command(TyperCommand):
    """A command whose help tells its own options first, and then those that every command takes."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write both lists."""
        shared = global_params()
        every, self.params = self.params, [param for param in self.params if param not in shared]
        try:
            super().format_options(ctx, formatter)
        finally:
            self.params = every
        with formatter.section("Options of every command"):
            formatter.write_dl([record for param in shared if (record := param.get_help_record(ctx)) is not None])


def load_command(name: str, module_name: str, summary: str) -> TyperCommand:
    """Import a command's module and make its function a command with the global options."""
    module = import_module(module_name)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name=name, cls=Command, help=f"{summary}\n\n{module.HELP}")(module.command)
    made = get_command(app)
    made.params.extend(global_params())
    return cast("TyperCommand", made)
