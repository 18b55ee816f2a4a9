"""What an undo makes of configurations, by the receipt of the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rmqctl.changes.late_writes import awaited_writes
from rmqctl.changes.plan_parts import awaiting_config
from rmqctl.errors import RefusedError
from rmqctl.model.plan import ConfigItem, Route
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, Result

from .lookup import FoundConfig, changed_configs
from .rules.fields import differing_names, taken_back


class Reverted(Struct, frozen=True):
    """The items of an undo, and the brokers with nothing to revert though the effect of their write was never seen."""

    items: tuple[ConfigItem, ...]
    never_seen: tuple[str, ...]

    @property
    def certain(self) -> tuple[ConfigItem, ...]:
        """The items that do not wait for an earlier write."""
        return tuple(item for item in self.items if item.awaits is None)


def require_changed(receipt: Receipt, *, also: bool = False) -> dict[str, ConfigReceiptItem]:
    """Return what a change has or may have written, by broker. Raises RefusedError if nothing, unless `also` is set."""
    changed = changed_configs(receipt)
    if not changed and not also:
        raise RefusedError(f"There is nothing to undo in {receipt.id}: no broker was changed.")
    return changed


def revert_configs(receipt: Receipt, found: FoundConfig, now_ms: int, *, route: Route = Route.GROUP_CONFIG) -> Reverted:
    """Return what takes a change back, wherever brokers can be read."""
    awaited = awaited_writes(receipt, now_ms)
    items, never_seen = [], []
    for name, item in changed_configs(receipt).items():
        if name not in found.brokers:
            continue
        now, target = found.fields(name), _before(item, found.fields(name))
        if not _is_so(now, target):
            items.append(ConfigItem(name, now, target, route=route))
        elif name in awaited:
            items.append(awaiting_config(name, now, awaited[name], route))
        elif item.result is Result.UNKNOWN:
            never_seen.append(name)
    return Reverted(tuple(items), tuple(never_seen))


def _before(item: ConfigReceiptItem, now: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what a broker is to have: in a configuration that existed, only the changed fields are reverted."""
    if item.before is None or item.target is None or now is None:
        return item.before
    return taken_back(item.before, item.target, now)


def _is_so(now: Mapping[str, Any] | None, target: Mapping[str, Any] | None) -> bool:
    return now is target if now is None or target is None else not differing_names(now, target)
