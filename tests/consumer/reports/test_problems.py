"""How often a problem is reported, and that it is over."""

from __future__ import annotations

from rmqctl.consumer.reports.problems import Problem, Problems
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.net.clock import VirtualClock

PULL, LISTENER = ConsumerWarning.PULL, ConsumerWarning.LISTENER


class _Said:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._new: list[str] = []
        self.problems = Problems(self._tell, self.clock)

    def _tell(self, problem: Problem) -> None:
        self._new.append(problem.sentence)

    async def after(self, seconds: float) -> list[str]:
        """Return what is said until some time has passed, and forget it."""
        for _ in range(round(seconds)):
            await self.clock.advance(1)
            self.problems.look()
        new, self._new = self._new, []
        return new


async def test_the_same_is_said_once_a_minute_with_its_number() -> None:
    said = _Said()
    for _ in range(130):
        said.problems(PULL, "Cannot pull from b.", "b")
        await said.clock.advance(1)
        said.problems.look()
    assert await said.after(0) == [
        "Cannot pull from b.",
        "Again, 59 more in 60 s, the last: Cannot pull from b.",
        "Again, 60 more in 60 s, the last: Cannot pull from b.",
    ]


async def test_another_place_and_another_cause_are_said_at_once() -> None:
    said = _Said()
    for sentence, place in (("A.", "a"), ("A.", "a"), ("B.", "b"), ("Another.", "a")):
        said.problems(PULL, sentence, place)
    assert await said.after(0) == ["A.", "B.", "Another."]


async def test_different_sentences_of_one_cause_are_bounded_and_counted() -> None:
    said = _Said()
    for number in range(100):
        said.problems(LISTENER, f"{number} failed.", "KeyError")
    assert await said.after(0) == [f"{number} failed." for number in range(10)]
    assert await said.after(60) == ["Again, 90 more in 60 s, the last: 99 failed."]
    for number in range(200, 220):
        said.problems(LISTENER, f"{number} failed.", "KeyError")
    assert await said.after(0) == ["200 failed.", "201 failed."]


async def test_it_is_over_once_it_has_worked_for_a_while() -> None:
    said = _Said()
    for _ in range(90):
        said.problems(PULL, "Cannot pull from b.", "b")
        await said.clock.advance(1)
    await said.after(0)
    said.problems.works(PULL, "b", "Pulling works again")
    said.problems.works(PULL, "a", "Pulling works again")
    assert await said.after(4) == ["Again, 89 more in 91 s, the last: Cannot pull from b."]
    said.problems.works(PULL, "b", "Pulling works again")
    assert await said.after(10) == ["Pulling works again after 1m30s, 90 failures."]
    assert not said.problems.has_open


async def test_what_works_and_fails_in_turn_is_not_over() -> None:
    said = _Said()
    for _ in range(20):
        said.problems(PULL, "Cannot pull from b.", "b")
        said.problems.works(PULL, "b", "Pulling works again")
        assert not any("works" in sentence for sentence in await said.after(4))


async def test_at_the_end_nothing_is_kept_back() -> None:
    said = _Said()
    for _ in range(3):
        said.problems(PULL, "A.", "a")
        said.problems(PULL, "B.", "b")
    said.problems.works(PULL, "b", "B works again")
    said.problems.end()
    assert await said.after(0) == [
        "A.",
        "B.",
        "Again, 2 more in 1 s, the last: A.",
        "B works again after 1s, 3 failures.",
    ]


async def test_many_places_share_one_limit_per_kind() -> None:
    said = _Said()
    for number in range(5000):
        said.problems(PULL, f"{number}.", str(number))
    assert len(await said.after(0)) == 1000 + 10


def test_a_report_that_fails_ends_nothing() -> None:
    def fail(_: Problem) -> None:
        raise ValueError("closed")

    Problems(fail, VirtualClock())(PULL, "A.")
