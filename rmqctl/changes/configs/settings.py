"""Parts of plans that set fields of a configuration, whether it is a group's or a topic's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from rmqctl.errors import RefusedError, UsageError
from rmqctl.model.plan import ConfigItem, Consequence, Route, Subject
from rmqctl.text.words import listed

from .rules.fields import differing_names, is_taken_over, setting_words

_SHOWN = 10
Configs = Mapping[str, Mapping[str, Any]]
"""Configurations by broker."""


def require_known(broker_name: str, unknown: Collection[str]) -> None:
    """Raise UsageError for fields that a broker does not know, and would silently drop."""
    if unknown:
        sentence = f"{broker_name} does not support {', '.join(sorted(unknown))}: its release is too old."
        raise UsageError(sentence, hint="Name the brokers to change with --broker.")


def require_equal(subject: Subject, there: Configs, targets: Configs) -> None:
    """Raise RefusedError if what is to be created exists with another configuration."""
    other = {
        name: differing_names(fields, targets[name])
        for name, fields in there.items()
        if not is_taken_over(targets[name], fields)
    }
    if other:
        said = "; ".join(f"{name} has {', '.join(setting_words(there[name], each))}" for name, each in other.items())
        hint = (
            f"Change it with rmqctl {subject.kind} update {subject.name}, or name brokers without the {subject.kind} "
            "with --broker."
        )
        raise RefusedError(f"{subject.title} already exists with another configuration: {said}.", hint=hint)


def changed_items(there: Configs, targets: Configs, route: Route) -> list[ConfigItem]:
    """Return the items of the brokers whose configuration differs from its target."""
    return [
        ConfigItem(name, there[name], target, route=route)
        for name, target in targets.items()
        if differing_names(there[name], target)
    ]


def describe_left_alone(there: Configs, items: Iterable[ConfigItem]) -> Iterator[Consequence]:
    """Yield the brokers whose configuration is already as requested."""
    for name in sorted(there.keys() - {item.broker_name for item in items}):
        yield Consequence("LEFT_ALONE", f"{name} already has these values.")


def describe_differing(targets: Configs) -> Iterator[Consequence]:
    """Yield the fields in which brokers will differ."""
    if names := differing_names(*targets.values()):
        said = "; ".join(f"{name} {', '.join(setting_words(fields, names))}" for name, fields in targets.items())
        yield Consequence("BROKERS_DIFFER", f"The brokers still differ: {said}.")


def describe_other_name_servers(registered: Iterable[str], asked: Collection[str], keep: str) -> Iterator[Consequence]:
    """Yield the name servers that brokers register with (namesrvAddr) and are not asked; `keep`: what they do."""
    others = sorted({each.strip() for every in registered for each in every.split(";")} - {"", *asked})
    if others:
        text = (
            f"Brokers also register with {listed(others, _SHOWN)}, which this command does not ask: unless these are "
            f"other names of the same servers, {keep}. Name them all with -n."
        )
        yield Consequence("OTHER_NAME_SERVERS", text)
