"""Inspects each plugin separately, so that one that fails does not hide the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import PluginError, RmqctlError
from rmqctl.rules.allocate import strategy_words

from .loader import CHECKS, KINDS, STRATEGIES, HookKind, call_hook, conflict, new_manager, register
from .sources import Origin, PluginSource, find_sources


class PluginReport(Struct, frozen=True):
    """One plugin: the hooks that it implements, and the names that it defines, by the key of their kind.

    None in `hooks` or for a kind means that it could not be determined. `takes_over` lists the built-in names that the
    plugin replaces, each after the noun of its kind.
    """

    source: PluginSource
    hooks: tuple[str, ...] | None
    names: Mapping[str, tuple[str, ...] | None]
    takes_over: tuple[str, ...] = ()
    errors: tuple[RmqctlError, ...] = ()


class Inventory(Struct, frozen=True):
    """All plugins. `conflicts` are errors between several plugins; the report of each of them has the error too."""

    reports: tuple[PluginReport, ...]
    conflicts: tuple[PluginError, ...]


def take_inventory(files: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Inventory:
    """Load every plugin that load_plugins would, and list what it defines. Failures are in the reports."""
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


def _examine(source: PluginSource) -> PluginReport:
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
            brought = [call_hook(kind, source.label, each.function) for each in implementations]
            names[kind.key] = tuple(name for each in brought for name in each)
        except PluginError as error:
            names[kind.key] = None
            errors.append(error)
    return PluginReport(source, tuple(hooks), names, errors=tuple(errors))


def _find_conflicts(reports: Sequence[PluginReport]) -> list[tuple[list[str], PluginError]]:
    """Return the plugins that define the same name, each with its error; built-in names can be replaced."""
    owners: dict[tuple[HookKind, str], list[str]] = {}
    for report in reports:
        if report.source.origin is not Origin.BUILT_IN:
            for kind in KINDS:
                for name in report.names[kind.key] or ():
                    owners.setdefault((kind, name), []).append(report.source.label)
    return [(labels, conflict(kind, name, labels)) for (kind, name), labels in owners.items() if len(labels) > 1]


def _own_names(reports: Sequence[PluginReport]) -> set[tuple[str, str]]:
    """Return the built-in names, each after the key of its kind."""
    from rmqctl.diagnose.table import CHECKS as OWN

    # Strategies and checks are listed in their own tables.
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
