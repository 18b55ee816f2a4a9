"""Command groups that import a command's module only when the command runs or its help is shown."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import cleandoc
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from rmqctl.errors import UsageError

from .globals import RunState, global_params
from .registry import ALIASES, COMMANDS, ERROR_CODES, FORMER_OPTIONS, GROUPS

# Words of other tools, and the commands that correspond to them, the best first.
_SYNONYMS = {
    "show describe status info inspect view": "describe status show",
    "list ls get": "list show get",
    "delete remove rm stop": "delete down",
    "create add new start": "create set up",
    "edit alter modify set": "update set",
    "query search grep": "find",
    "follow watch consume": "tail run",
    "produce publish": "send",
    "resend redrive retry": "replay",
    "seek rewind": "reset",
    "revert rollback": "undo",
}


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
        """Import and return one command, None for an unknown word."""
        if not self.prefix and cmd_name in GROUPS:
            return LazyGroup(cmd_name, name=cmd_name, help=GROUPS[cmd_name], params=list(global_params()))
        words = f"{self.prefix} {cmd_name}".strip()
        main = self._main_words(words)
        if (entry := COMMANDS.get(main)) is None:
            return None
        module, summary = entry
        return load_command(cmd_name, module, summary if main == words else f"{summary} The same as rmqctl {main}.")

    def _main_words(self, words: str) -> str:
        """Return the words under which the registry has a command; unknown ones as they are."""
        if self.prefix and words == f"{self.prefix} ls":
            return f"{self.prefix} list"
        return ALIASES.get(words, words)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options; only the root's help lists the global options."""
        from .help import write_options

        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter, with_globals=not self.prefix)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the list of commands from the registry's summaries, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries().items()))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help if no word is given, which is not an error."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(0)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of the first word; an unknown one gets a suggestion."""
        words = f"{self.prefix} {args[0]}".strip() if args else ""
        is_known = not words or args[0] in self._summaries() or self._main_words(words) in COMMANDS
        if not is_known and not args[0].startswith("-"):
            known = self._like(args[0])
            where = f"See {ctx.command_path} --help."
            raise UsageError(f"Unknown command {words!r}.", hint=f"Did you mean {known}? {where}" if known else where)
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(state := ctx.find_root().obj, RunState):
            state.error_code = ERROR_CODES.get(f"{self.prefix} {name}".strip())
        return name, command, rest

    def _like(self, word: str) -> str | None:
        """Return a command that the user may have meant; within a group only one of that group."""
        own = self._summaries()
        same = [known for theirs, ours in _SYNONYMS.items() if word in theirs.split() for known in ours.split()]
        if found := [*(known for known in same if known in own), *get_close_matches(word, own, n=1)]:
            return f"{self.prefix} {found[0]}".strip()
        return None if self.prefix else next((known for known in COMMANDS if word in known.split()), None)


class CommandEntry(TyperCommand):
    """A command of the registry. `former_options` maps names that are not shown to those of options."""

    former_options: Mapping[str, str] = {}

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser, which also knows the former names of options; each of these has one value."""
        parser = super().make_parser(ctx)
        for former, name in self.former_options.items():
            param: Any = next(param for param in self.params if name in param.opts)
            parser.add_option(obj=param, opts=[former], dest=param.name)
        return parser

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, without typer's braces around required ones."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the summary and the help, with examples that fit."""
        from .help import fit_examples

        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(fit_examples(cleandoc(self.help or ""), formatter.width - formatter.current_indent))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options under headings, with one line for the global options."""
        from .help import write_options

        write_options(self, ctx, formatter)


def load_command(name: str, module_name: str, summary: str) -> CommandEntry:
    """Import a command's module and make its function a command with the global options."""
    from .option_blocks import expand_blocks
    from .plain_numbers import read_plain_numbers

    module = import_module(module_name)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name=name, cls=CommandEntry, help=f"{summary}\n\n{module.HELP}")(expand_blocks(module.command))
    made = cast("CommandEntry", get_command(app))
    made.former_options = FORMER_OPTIONS.get(module_name, {})
    read_plain_numbers(made.params)
    made.params.extend(global_params())
    return made
