"""Where consume_from does not count."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.text.words import counted, listed

from .start import TopicStart


def start_words(found: Mapping[str, TopicStart], group: str, option: str = "consume_from") -> list[str]:
    """Return where the setting does not count, under the name of its option, and how to move offsets instead."""
    sentences = []
    for topic, start in sorted(found.items()):
        if start.stored_count:
            which = f"{start.stored_count} of {counted(len(start.queues), 'queue')}"
            sentences.append(
                f"{topic}: {option} does not count, because the group has offsets in {which} and continues there. "
                f"To move offsets: rmqctl offset reset {group} --topic {topic} --to-earliest (or --to-latest ...)"
            )
        elif start.has_members:
            sentences.append(
                f"{topic}: {option} does not count, because the group has other members and no offsets yet. "
                "Queues start at their first message."
            )
        elif start.errors:
            reasons = listed(f"{name}: {error.sentence}" for name, error in sorted(start.errors.items()))
            sentences.append(f"{topic}: {option} may not count: it is unknown whether the group has offsets. {reasons}")
    return sentences
