"""Several servers that should report the same names: what each of them leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet


def differing_views(views: Mapping[str, AbstractSet[str]]) -> dict[str, tuple[str, ...]]:
    """Return by server the names that others report but it does not, sorted; complete servers are omitted."""
    everything: set[str] = set().union(*views.values())
    return {server: tuple(sorted(everything - reported)) for server, reported in views.items() if everything - reported}
