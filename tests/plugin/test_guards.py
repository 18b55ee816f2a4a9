"""What a plugin's code can do wrong when it is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from rmqctl.errors import PluginError
from rmqctl.plugin import AllocationError, Assignment, CustomStrategy, MessageQueue
from rmqctl.plugin.guards import (
    guarded_notifier,
    guarded_resolver,
    guarded_strategy,
    guarded_transform,
    run_codec,
)
from tests.plugin.counted_text import Counted

_QUEUES = [MessageQueue("T", "a", queue_id) for queue_id in range(3)]
_IDS = ["c1", "c2"]


class _Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError


def _answering(answer: Any) -> CustomStrategy:
    return guarded_strategy("mine", lambda queues, client_ids, options: answer, "mine.py")


def test_a_good_answer_comes_back_with_every_client_in_order() -> None:
    allocate = _answering({"c2": tuple(_QUEUES)})
    assert allocate(_QUEUES, _IDS, {}) == {"c1": [], "c2": _QUEUES}
    assert list(allocate(_QUEUES, _IDS, {})) == _IDS
    # What only equals a queue is not shown.
    (queue,) = _answering({"c1": [MessageQueue("T", "a", 1.0)]})(_QUEUES, _IDS, {})["c1"]  # type: ignore[arg-type]
    assert type(queue.queue_id) is int
    # Queues that several have, or nobody, are a result to show: ByConfig gives such.
    assert _answering({"c1": _QUEUES, "c2": _QUEUES[:1]})(_QUEUES, _IDS, {})["c2"] == _QUEUES[:1]
    assert _answering({})(_QUEUES, ["c1", "c1"], {}) == {"c1": []}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "it returns None, not a mapping of client ids to queues"),
        ([("c1", _QUEUES)], ".*, not a mapping of client ids to queues"),
        ({"c9": _QUEUES}, "it gives queues to client c9, which is not in the group"),
        ({3: _QUEUES}, "it gives queues to client 3, which is not in the group"),
        ({"c1": None}, "it gives client c1 None, not a list of queues"),
        ({"c1": "T"}, "it gives client c1 'T', not a list of queues"),
        ({"c1": _QUEUES[0]}, "it gives client c1 MessageQueue.*, not a list of queues"),
        ({"c1": iter(_QUEUES)}, "it gives client c1 <list_iterato.*, not a list of queues"),
        ({"c1": [MessageQueue("T", "a", 9)]}, "it gives client c1 queue T@a:9, which was not given"),
        ({"c1": [*_QUEUES, ("T", "a", 1)]}, r"it gives client c1 \('T', 'a', 1\), not a MessageQueue"),
        ({"c1": [None]}, "it gives client c1 None, not a MessageQueue"),
        ({"c1": [[]]}, r"it gives client c1 \[\], not a MessageQueue"),
        ({"c1": [_Unprintable()]}, "it gives client c1 <_Unprintable .*, not a MessageQueue"),
        ({"c1": [MessageQueue("T", "a", [])]}, "TypeError"),  # type: ignore[arg-type]
        ({"c1": _QUEUES, "c2": [_QUEUES[1], _QUEUES[2], _QUEUES[1]]}, "it gives queue T@a:1 to client c2 twice"),
    ],
)
def test_a_wrong_answer_is_one_sentence_that_names_plugin_strategy_and_item(answer: Any, says: str) -> None:
    with pytest.raises(PluginError, match=rf"^Strategy mine of plugin mine\.py failed: {says}") as caught:
        _answering(answer)(_QUEUES, _IDS, {})
    assert "\n" not in caught.value.sentence


class _BareError(BaseException):
    pass


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("two\nlines"), SystemExit("two lines"), ValueError("two  lines"), BaseException("two lines"),
        GeneratorExit("two lines"), _BareError("two lines"),
    ],
)  # fmt: skip
def test_whatever_it_raises_is_one_sentence(error: BaseException) -> None:
    def fail(*_: object) -> Any:
        raise error

    name = type(error).__name__
    with pytest.raises(PluginError) as caught:
        guarded_strategy("mine", fail)(_QUEUES, _IDS, {})
    assert caught.value.sentence == f"Strategy mine failed: {name}: two lines."
    with pytest.raises(PluginError) as caught:
        guarded_resolver("mine", fail)("client", "c1")
    assert caught.value.sentence == f"Site resolver mine failed for client c1: {name}: two lines."


def _guarded(fail: Callable[..., Any]) -> list[Callable[[], object]]:
    return [
        lambda: run_codec("mine", fail, b"", {}, "T"),
        lambda: guarded_strategy("mine", fail)(_QUEUES, _IDS, {}),
        lambda: guarded_notifier("mine", fail)({}, "there"),
        lambda: guarded_resolver("mine", fail)("client", "c1"),
        lambda: guarded_transform("mine", fail)(b"", {}, "T"),
    ]


@pytest.mark.parametrize("kind", [BaseException, GeneratorExit, KeyboardInterrupt, asyncio.CancelledError])
def test_only_what_ends_the_program_passes_a_guard(kind: type[BaseException]) -> None:
    def fail(*_: object) -> Any:
        raise kind

    passes = kind in (KeyboardInterrupt, asyncio.CancelledError)
    for run in _guarded(fail):
        with pytest.raises(kind if passes else PluginError):
            run()


def test_an_exception_that_can_not_be_shown_is_told_by_its_name() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fail(*_: object) -> Any:
        raise SilentError

    with pytest.raises(PluginError) as caught:
        guarded_strategy("mine", fail)(_QUEUES, _IDS, {})
    assert caught.value.sentence == "Strategy mine failed: SilentError."


def test_a_refusal_stays_one_but_must_say_why() -> None:
    def refuse(*_: object) -> Any:
        raise AllocationError(words)

    words = "maxShare is 0."
    with pytest.raises(AllocationError, match=r"^maxShare is 0\.$"):
        guarded_strategy("mine", refuse)(_QUEUES, _IDS, {})
    words = ""
    with pytest.raises(PluginError, match="without a reason"):
        guarded_strategy("mine", refuse)(_QUEUES, _IDS, {})


def test_nothing_to_share_is_refused_before_it_is_asked() -> None:
    with pytest.raises(AllocationError, match="no queues"):
        _answering({})([], _IDS, {})
    with pytest.raises(AllocationError, match="no clients"):
        _answering({})(_QUEUES, [], {})


def test_it_can_not_change_what_it_is_given() -> None:
    def spoil(queues: Sequence[MessageQueue], client_ids: Sequence[str], options: Mapping[str, Any]) -> Assignment:
        for given in (queues, client_ids, options):
            given.clear()  # type: ignore[union-attr]
        return {}

    queues, ids, options = [*_QUEUES], [*_IDS], {"a": 1}
    assert guarded_strategy("mine", spoil)(queues, ids, options) == {"c1": [], "c2": []}
    assert (queues, ids, options) == (_QUEUES, _IDS, {"a": 1})


@pytest.mark.parametrize("room", ["east", "", None])
def test_a_resolver_answers_a_text_or_nothing(room: str | None) -> None:
    assert guarded_resolver("mine", lambda kind, name: room)("client", "c1") == room


@pytest.mark.parametrize("room", [3, b"east", ["east"], _Unprintable()])
def test_a_resolver_that_answers_something_else_fails(room: Any) -> None:
    with pytest.raises(PluginError, match=r"Site resolver mine of plugin mine\.py failed: for client c1 it returns "):
        guarded_resolver("mine", lambda kind, name: room, "mine.py")("client", "c1")


def test_100_000_queues_are_checked_at_once() -> None:
    Counted.count = 0
    queues = [MessageQueue("T", Counted(f"b{number % 100}"), number) for number in range(100_000)]
    ids = [f"c{number}" for number in range(10_000)]
    answer = {client_id: queues[index * 10 : index * 10 + 10] for index, client_id in enumerate(ids)}
    whole = {"c1": queues}
    allocate = guarded_strategy("mine", lambda queues, client_ids, options: {"c1": [*queues, queues[-1]]})
    with pytest.raises(PluginError, match="twice"):
        allocate(queues, ids, {})
    for each in (answer, whole):
        allocate = guarded_strategy("mine", lambda queues, client_ids, options, each=each: each)  # type: ignore[misc]
        allocate(queues, ids, {})  # each with each would be 5,000,000,000 comparisons
