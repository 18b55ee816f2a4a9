"""Whether members keep joining and leaving a group, by the client ids seen at several moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

# A single restart is a deployment.
_LEAST = 2


class FlappingMember(Struct, frozen=True):
    """Members that keep joining and leaving. `returned` counts how often each client id rejoined after leaving.

    `short_lived` are ids that joined and left while the group was watched: a process that keeps crashing after its
    start has another id each time. Both are empty for a group whose members restart only once.
    """

    returned: dict[str, int]
    short_lived: tuple[str, ...]

    @property
    def is_seen(self) -> bool:
        """Tell whether any such members were found."""
        return bool(self.returned or self.short_lived)


def find_flapping(seen: Sequence[frozenset[str]]) -> FlappingMember:
    """Compare the client ids seen at several moments, in order of time."""
    joins, leaves = Counter[str](), Counter[str]()
    for before, after in pairwise(seen):
        joins.update(after - before)
        leaves.update(before - after)
    returned = {name: count for name in sorted(joins) if (count := _returns(name, joins, leaves, seen)) >= _LEAST}
    short_lived = [name for name in sorted(joins) if name not in seen[0] and leaves[name] and name not in returned]
    by_host = Counter(_host(name) for name in short_lived)
    return FlappingMember(returned, tuple(name for name in short_lived if by_host[_host(name)] >= _LEAST))


def _returns(name: str, joins: Counter[str], leaves: Counter[str], seen: Sequence[frozenset[str]]) -> int:
    return min(joins[name] if name in seen[0] else joins[name] - 1, leaves[name])


def _host(client_id: str) -> str:
    return client_id.partition("@")[0]
