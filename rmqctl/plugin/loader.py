"""Loads plugins and collects what they define. Every failure of a plugin becomes one sentence that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pluggy
from msgspec import Struct

from rmqctl.diagnose.finding import Check
from rmqctl.errors import PluginError, UsageError
from rmqctl.rules.allocate import CustomStrategy
from rmqctl.text.names import hint_for

from . import hookspecs
from .guards import (
    GuardedTransform,
    exception_line,
    guarded_check,
    guarded_notifier,
    guarded_resolver,
    guarded_strategy,
    guarded_transform,
    run_codec,
)
from .hookspecs import PROJECT, BodyCodec, Notifier, SiteResolver
from .sources import BUILT_IN, PluginSource, find_sources
from .text_encodings import encoding_names, text_codec

__all__ = [
    "all_checks",
    "body_codec",
    "body_codecs",
    "guarded_resolver",
    "guarded_strategy",
    "letter_transform",
    "load_plugins",
    "notifiers",
    "run_codec",
    "site_resolvers",
    "strategies",
]


class HookKind(Struct, frozen=True):
    """What a hook returns, by name: `key` is the key of all of them in JSON, `noun` names one in a sentence."""

    hook: str
    key: str
    noun: str


CODECS = HookKind("rmqctl_body_codecs", "codecs", "codec")
STRATEGIES = HookKind("rmqctl_strategies", "strategies", "strategy")
SITE_RESOLVERS = HookKind("rmqctl_site_resolvers", "siteResolvers", "site resolver")
TRANSFORMS = HookKind("rmqctl_letter_transforms", "transforms", "transform")
CHECKS = HookKind("rmqctl_checks", "checks", "check")
NOTIFIERS = HookKind("rmqctl_notifiers", "notifiers", "notifier")
KINDS = (CODECS, STRATEGIES, SITE_RESOLVERS, TRANSFORMS, CHECKS, NOTIFIERS)


def load_plugins(files: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> pluggy.PluginManager:
    """Load the built-in plugins, installed ones, and those of files and of RMQCTL_PLUGINS.

    Raises PluginError for a plugin that cannot be loaded, UsageError for a file that does not exist.
    """
    manager = new_manager()
    for source in find_sources(files, environ):
        register(manager, source)
    return manager


def new_manager() -> pluggy.PluginManager:
    """Return a manager with the hooks and without plugins."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def register(manager: pluggy.PluginManager, source: PluginSource) -> None:
    """Load one plugin. Raises PluginError when that fails, UsageError for a file that does not exist."""
    try:
        manager.register(source.load(), name=source.label)
        manager.check_pending()
    except UsageError:
        raise
    except BaseException as error:
        raise PluginError(f"Cannot load plugin {source.label}: {exception_line(error)}.") from error


def body_codecs(manager: pluggy.PluginManager) -> dict[str, BodyCodec]:
    """Return all codecs by name. Raises PluginError when a plugin fails, or when two define the same name."""
    return {name: codec for name, (codec, _) in _collect(manager, CODECS).items()}


def strategies(manager: pluggy.PluginManager) -> dict[str, CustomStrategy]:
    """Return the strategies of plugins by name, guarded. Raises as body_codecs does."""
    return {
        name: guarded_strategy(name, strategy, plugin)
        for name, (strategy, plugin) in _collect(manager, STRATEGIES).items()
    }


def site_resolvers(manager: pluggy.PluginManager) -> dict[str, SiteResolver]:
    """Return the site resolvers of plugins by name, guarded. Raises as body_codecs does."""
    found = _collect(manager, SITE_RESOLVERS)
    return {name: guarded_resolver(name, resolver, plugin) for name, (resolver, plugin) in found.items()}


def all_checks(manager: pluggy.PluginManager) -> tuple[Check, ...]:
    """Return the built-in checks and those of plugins, guarded; a plugin's check replaces one with the same code.

    Raises as body_codecs does, and PluginError for a value that is not a check or has another code.
    """
    from rmqctl.diagnose.table import CHECKS as OWN  # 40 modules that other plugins do not need

    own = {check.code: check for check in OWN}
    for code, (made, plugin) in _collect(manager, CHECKS).items():
        own[code] = guarded_check(code, made, plugin)
    return tuple(own.values())


def _collect(manager: pluggy.PluginManager, kind: HookKind) -> dict[str, tuple[Any, str]]:
    """Return what plugins define by name, each with its plugin. They may replace built-in names."""
    found: dict[str, tuple[Any, str]] = {}
    implementations = getattr(manager.hook, kind.hook).get_hookimpls()
    for implementation in sorted(implementations, key=lambda each: each.plugin_name != BUILT_IN):
        plugin = implementation.plugin_name
        for name, made in call_hook(kind, plugin, implementation.function).items():
            if name in found and found[name][1] != BUILT_IN:
                raise conflict(kind, name, [found[name][1], plugin])
            found[name] = made, plugin
    return found


def call_hook(kind: HookKind, plugin: str, function: Callable[[], Any]) -> dict[str, Any]:
    """Call a plugin's hook and return what it defines, by name. Raises PluginError when it fails."""
    try:
        brought = dict(function())
    except BaseException as error:
        raise PluginError(f"Plugin {plugin} failed: {exception_line(error)}.") from error
    for name, made in brought.items():
        if not isinstance(name, str) or not name:
            raise PluginError(f"Plugin {plugin} failed: {name!r} is not a name for a {kind.noun}.")
        if not callable(made):
            raise PluginError(f"Plugin {plugin} failed: its {kind.noun} {name!r} is not callable.")
    return brought


def conflict(kind: HookKind, name: str, plugins: Sequence[str]) -> PluginError:
    """Return the error for several plugins that define the same name."""
    *others, last = plugins
    return PluginError(
        f"{'Both ' if len(others) == 1 else ''}{', '.join(others)} and {last} define a {kind.noun} {name!r}.",
        hint="Load only one of them.",
    )


def body_codec(name: str, files: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> BodyCodec:
    """Return one codec, of a plugin or of a text encoding. Raises UsageError for an unknown name."""
    found = body_codecs(load_plugins(files, environ))
    codec = found.get(name) or text_codec(name)
    if codec is None:
        known = f"{', '.join(sorted(found))} and text encodings (gbk, shift_jis, utf-16 ...)"
        raise _unknown(CODECS, name, [*found, *encoding_names()], known)
    return codec


def letter_transform(
    name: str, files: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> GuardedTransform:
    """Return one transform, guarded. Raises UsageError for an unknown name."""
    return guarded_transform(name, _named(TRANSFORMS, name, files, environ))


def notifiers(files: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> dict[str, Notifier]:
    """Return all notifiers by name, those of plugins guarded. Raises as body_codecs does."""
    from rmqctl.watch.notifiers import BUILT_IN as OWN

    brought = _collect(load_plugins(files, environ), NOTIFIERS)
    return {**OWN, **{name: guarded_notifier(name, made, plugin) for name, (made, plugin) in brought.items()}}


def _named(kind: HookKind, name: str, files: Sequence[str], environ: Mapping[str, str] | None) -> Any:
    found = _collect(load_plugins(files, environ), kind)
    if name not in found:
        raise _unknown(kind, name, found, ", ".join(sorted(found)))
    return found[name][0]


def _unknown(kind: HookKind, name: str, names: Iterable[str], known: str) -> UsageError:
    hint = f"Use one of: {known}; --plugin adds more." if known else "Load a plugin with --plugin FILE."
    return UsageError(f"Unknown {kind.noun} {name!r}.", hint=hint_for(name, names, otherwise=hint))
