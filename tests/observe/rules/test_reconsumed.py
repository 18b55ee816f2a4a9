"""How many messages are redelivered at least, by what members say."""

from __future__ import annotations

import pytest

from rmqctl.model.group import GroupState
from rmqctl.model.plan import Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, OwnerSample, QueueSample
from rmqctl.observe.rules.reconsumed import reconsumed_at_least
from rmqctl.rules.written_offsets import WrittenOffset

MQ = MessageQueue("T", "broker-a", 0)
BACK = WrittenOffset(MQ, Route.SERVER_SIDE, 60, 20)


def _sample(*owners: tuple[str, int | None, int | None], members: tuple[str, ...] = ("c1",)) -> GroupSample:
    """A sample of owners, each (client id, position, when it took the queue)."""
    held = tuple(OwnerSample(name, position, 0, 0, begun_at_ms=begun) for name, position, begun in owners)
    return GroupSample(0, 0.0, "G", GroupState.ONLINE, members, {MQ: QueueSample(MQ, owners=held)})


@pytest.mark.parametrize(
    ("baseline", "samples", "count"),
    [
        # On until its turn, which begins the queue anew: what it passes then does not count.
        (_sample(("c1", 62, 5)), [_sample(("c1", 75, 5)), _sample(("c1", 20, 9)), _sample(("c1", 300, 9))], 55),
        # Who does not tell when it took the queue can have gone there and come back between two samples.
        (_sample(("c1", 62, None)), [_sample(("c1", 300, None))], 42),
        # Another member may have begun at the target.
        (_sample(("c1", 62, 5)), [_sample(("c2", 300, 5))], 42),
        # Behind what is stored: what was stored had been passed all the same.
        (_sample(("c1", 30, 5)), [_sample(("c1", 31, 5))], 40),
        (None, [_sample(("c1", 300, 5))], 40),
        (_sample(), [_sample()], 40),
        (_sample(("c1", 62, 5)), [], None),
        (_sample(("c1", 62, 5)), [_sample(members=())], None),
    ],
)
def test_what_lies_between_the_target_and_the_last_position_before_the_turn(
    baseline: GroupSample | None, samples: list[GroupSample], count: int | None
) -> None:
    assert reconsumed_at_least(BACK, baseline, samples) == count


def test_a_step_forward_redelivers_nothing() -> None:
    ahead = WrittenOffset(MQ, Route.SERVER_SIDE, 60, 90)
    assert reconsumed_at_least(ahead, _sample(("c1", 62, 5)), [_sample(("c1", 95, 9))]) == 0


def test_a_queue_without_any_position_tells_nothing() -> None:
    first = WrittenOffset(MQ, Route.CLIENT_PUSH, None, 20)
    assert reconsumed_at_least(first, _sample(("c1", None, 5)), [_sample(("c1", 25, 9))]) is None
