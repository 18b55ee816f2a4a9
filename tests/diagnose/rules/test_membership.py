"""Members that come and go all the time, and deployments, which are none."""

from __future__ import annotations

import pytest

from rmqctl.diagnose.rules.membership import find_flapping


def _seen(*moments: str) -> list[frozenset[str]]:
    """Read moments such as "a b": the ids that were there; each is on a host of its own unless it names one."""
    return [frozenset(name if "@" in name else f"{name}@{name}" for name in moment.split()) for moment in moments]


@pytest.mark.parametrize(
    ("moments", "returned", "short_lived"),
    [
        ([], {}, ()),
        (["a b"], {}, ()),
        (["a b", "a b", "a b"], {}, ()),
        (["a b", "a", "a b"], {}, ()),  # a restart
        (["a b c", "b c", "a b c", "a c", "a b c", "a b", "a b c"], {}, ()),  # one after the other
        (["h@1 h@2", "h@2", "h@2 h@3", "h@3", "h@3 h@4"], {}, ()),  # the same, under new ids
        (["a b", "a", "a b", "a", "a b"], {"b@b": 2}, ()),
        (["a", "a b", "a", "a b", "a", "a b"], {"b@b": 2}, ()),  # it was away at first
        (["a", "a h@1", "a", "a h@2", "a", "a h@3"], {}, ("h@1", "h@2")),  # a crash loop
        (["a", "a h@1", "a", "a i@1", "a"], {}, ()),  # two hosts, once each
    ],
)
def test_only_what_happens_again_and_again_is_flapping(
    moments: list[str], returned: dict[str, int], short_lived: tuple[str, ...]
) -> None:
    found = find_flapping(_seen(*moments))
    assert (found.returned, found.short_lived) == (returned, short_lived)
    assert found.is_seen == bool(returned or short_lived)
