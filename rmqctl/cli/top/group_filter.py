"""The filter line of rmqctl top."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.cli.output.listing import Item
from rmqctl.rules.health import Health
from rmqctl.text.filters import Condition, is_met, parse_condition
from rmqctl.text.wildcards import is_pattern, matching


def filter_groups(items: Sequence[Item], text: str) -> Sequence[Item]:
    """Return the groups that every word of the text matches.

    A word is a part of a group's name, a pattern with * and ? for the whole name, a health in capitals, or a condition
    as in --where: `lag>1000`. The case of names does not count.
    """
    for word in text.split():
        condition = _condition(word)
        if condition is not None:
            items = [item for item in items if is_met(condition, item)]
        else:
            pattern = word if is_pattern(word) else f"*{word}*"
            names = set(matching([pattern], (item["group"] for item in items), with_case=False))
            items = [item for item in items if item["group"] in names]
    return items


def _condition(word: str) -> Condition | None:
    if word in list(Health):
        return Condition("health", "=", word)
    try:
        return parse_condition(word)
    except ValueError:
        return None
