"""Several servers that should tell the same: who leaves out what."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet


def differing_views(views: Mapping[str, AbstractSet[str]]) -> dict[str, tuple[str, ...]]:
    """Return by server what others tell and it does not, sorted; servers that leave nothing out are left out."""
    everything: set[str] = set().union(*views.values())
    return {server: tuple(sorted(everything - told)) for server, told in views.items() if everything - told}
