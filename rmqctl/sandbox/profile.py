"""Which release a sandbox plays."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.protocol.versions import version_ordinal


class Profile(Struct, frozen=True):
    """One release of RocketMQ. `is_5` tells the two families apart: that is where answers differ.

    `is_5_5`: with what 5.5 added to that.
    """

    name: str
    version: int
    is_5: bool
    is_5_5: bool = False

    @property
    def advice(self) -> str:
        """What remarks on topics that there are not end in (FAQUrl.suggestTodo)."""
        url = (
            "https://rocketmq.apache.org/docs/bestPractice/06FAQ"
            if self.is_5
            else "http://rocketmq.apache.org/docs/faq/"
        )
        return f"\nSee {url} for further details."


PROFILES = {
    "5.4.0": Profile("5.4.0", version_ordinal(5, 4, 0), is_5=True),
    "5.5.0": Profile("5.5.0", version_ordinal(5, 5, 0), is_5=True, is_5_5=True),
    "4.9.7": Profile("4.9.7", version_ordinal(4, 9, 7), is_5=False),
}


def find_profile(name: str) -> Profile:
    """Return the profile of a release. Raises UsageError."""
    try:
        return PROFILES[name]
    except KeyError:
        raise UsageError(f"The sandbox can't play {name!r}.", hint=f"It plays {' and '.join(PROFILES)}.") from None
