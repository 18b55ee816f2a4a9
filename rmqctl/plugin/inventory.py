"""Looks at each plugin alone, so that one that fails hides no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import PluginError, RmqctlError
from rmqctl.rules.allocate import strategy_words

from .loader import CHECKS, KINDS, STRATEGIES, Kind, bring, conflict, new_manager, register
from .sources import Origin, Source, find_sources


class PluginReport(Struct, frozen=True):
    """One plugin: the hooks that it implements, and the names that it brings by the key of their kind.

    None stands for what could not be asked. `takes_over` are names of rmqctl's own, each behind its kind's noun.
    """

    source: Source
    hooks: tuple[str, ...] | None
    names: Mapping[str, tuple[str, ...] | None]
    takes_over: tuple[str, ...] = ()
    errors: tuple[RmqctlError, ...] = ()


class Inventory(Struct, frozen=True):
    """All plugins. `conflicts` are errors of several plugins, which each of them has as well."""

    reports: tuple[PluginReport, ...]
    conflicts: tuple[PluginError, ...]


def take_inventory(files: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Inventory:
    """Load every plugin that load_plugins would, and ask it what it brings. What fails is in the reports."""
    reports = [_examine(source) for source in find_sources(files, environ)]
    conflicts = _find_conflicts(reports)
    own = _own_names(reports)
    whole = [
        replace(
            report,
            takes_over=_taken_over(report, own),
            errors=(*report.errors, *(error for labels, error in conflicts if report.source.label in labels)),
        )
        for report in reports
    ]
    return Inventory(tuple(whole), tuple(error for _, error in conflicts))


def _examine(source: Source) -> PluginReport:
    manager = new_manager()
    try:
        register(manager, source)
    except RmqctlError as error:
        return PluginReport(source, None, dict.fromkeys((kind.key for kind in KINDS), None), errors=(error,))
    hooks: list[str] = []
    names: dict[str, tuple[str, ...] | None] = {}
    errors: list[RmqctlError] = []
    for kind in KINDS:
        implementations = getattr(manager.hook, kind.hook).get_hookimpls()
        hooks += [kind.hook] * bool(implementations)
        try:
            brought = [bring(kind, source.label, each.function) for each in implementations]
            names[kind.key] = tuple(name for each in brought for name in each)
        except PluginError as error:
            names[kind.key] = None
            errors.append(error)
    return PluginReport(source, tuple(hooks), names, errors=tuple(errors))


def _find_conflicts(reports: Sequence[PluginReport]) -> list[tuple[list[str], PluginError]]:
    """Return the plugins that bring one name, and the error that it is; rmqctl's own names can be taken over."""
    owners: dict[tuple[Kind, str], list[str]] = {}
    for report in reports:
        if report.source.origin is not Origin.BUILT_IN:
            for kind in KINDS:
                for name in report.names[kind.key] or ():
                    owners.setdefault((kind, name), []).append(report.source.label)
    return [(labels, conflict(kind, name, labels)) for (kind, name), labels in owners.items() if len(labels) > 1]


def _own_names(reports: Sequence[PluginReport]) -> set[tuple[str, str]]:
    """Return the names that rmqctl has without plugins, each behind its kind's key."""
    from rmqctl.diagnose.table import CHECKS as OWN

    # They have tables of their own.
    own = {(STRATEGIES.key, name) for name in strategy_words()}
    own |= {(CHECKS.key, check.code) for check in OWN}
    for report in reports:
        if report.source.origin is Origin.BUILT_IN:
            own.update((key, name) for key, names in report.names.items() for name in names or ())
    return own


def _taken_over(report: PluginReport, own: set[tuple[str, str]]) -> tuple[str, ...]:
    if report.source.origin is Origin.BUILT_IN:
        return ()
    return tuple(
        f"{kind.noun} {name}" for kind in KINDS for name in report.names[kind.key] or () if (kind.key, name) in own
    )
