"""The RocketMQ releases that a sandbox can play."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.protocol.versions import version_ordinal
from rmqctl.text.names import hint_for


class Profile(Struct, frozen=True):
    """One release of RocketMQ. `is_5` is true for 5.x, whose answers differ from 4.9; `is_5_5` from 5.5 on."""

    name: str
    version: int
    is_5: bool
    is_5_5: bool = False

    @property
    def advice(self) -> str:
        """The end of remarks on topics that do not exist (FAQUrl.suggestTodo)."""
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
        raise UsageError(f"Unknown RocketMQ release {name!r}.", hint=hint_for(name, PROFILES)) from None
