"""Options that several commands have, as one parameter of their functions.

A block is a Struct whose fields are options or arguments of typer. A command that lacks some of them says so:

    def command(ctx: typer.Context, group: Group, *, consent: Annotated[Consent, without("partial")]) -> int:
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import fields


class _Without(Struct, frozen=True):
    names: tuple[str, ...]


def without(*names: str) -> _Without:
    """Leave these fields of a block out of a command; they keep their defaults."""
    return _Without(names)


def expand_blocks(command: Callable[..., int]) -> Callable[..., int]:
    """Return the command as a function whose parameters are single options, in the order of the help."""
    singles: list[inspect.Parameter] = []
    blocks: dict[str, tuple[type[Struct], list[str]]] = {}
    for parameter in inspect.signature(command).parameters.values():
        block, *notes = get_args(parameter.annotation) or (parameter.annotation,)
        if not (isinstance(block, type) and issubclass(block, Struct)):
            singles.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        left_out = {name for note in notes if isinstance(note, _Without) for name in note.names}
        taken = [each for each in fields(block) if each.name not in left_out]
        blocks[parameter.name] = block, [each.name for each in taken]
        singles += [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in taken
        ]

    def run(**given: Any) -> int:
        made = {name: block(**{each: given.pop(each) for each in names}) for name, (block, names) in blocks.items()}
        return command(**given, **made)

    run.__signature__ = inspect.Signature(singles)  # type: ignore[attr-defined]  # what typer reads
    return run
