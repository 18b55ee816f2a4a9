from __future__ import annotations

from rmqctl.admin.groups.rules.backlog import (
    TopicPart,
    UnreadPart,
    find_leftovers,
    merge_backlogs,
    oldest_age_ms,
    sum_backlog,
)
from rmqctl.model.progress import Unknown
from rmqctl.model.stats import ConsumeTimeSpan, TopicOffset
from rmqctl.model.topic import TopicConfig


def _config(read_count: int, write_count: int) -> TopicConfig:
    return TopicConfig("T", read_count, write_count, 6, is_ordered=False, attributes={})


def _part(queues: dict[int, tuple[int, int]], offsets: dict[int, int], config: TopicConfig | None = None) -> TopicPart:
    told = {queue_id: TopicOffset(first, end, 0) for queue_id, (first, end) in queues.items()}
    return TopicPart("broker-a", "T", offsets, told, config)


def test_queues_beyond_the_read_queues_count_apart() -> None:
    queues = {0: (0, 10), 1: (0, 10), 2: (3, 10), 3: (5, 5)}
    found = sum_backlog([_part(queues, {0: 4, 1: 10}, _config(2, 4))])
    assert (found.lag, found.unreadable_count, found.unreadable_end, found.reason) == (6, 7, 3, None)
    assert found.behind == (UnreadPart("broker-a", "T", (0,), ()),)
    # Without the configuration all count, as far as they can be.
    assert sum_backlog([_part(queues, {0: 4, 1: 10})]).reason is Unknown.NEVER_COMMITTED


def test_messages_of_queues_without_an_offset_count_apart() -> None:
    found = sum_backlog([_part({0: (0, 10), 1: (3, 10), 2: (5, 5)}, {0: 4})])
    assert (found.lag, found.uncommitted_count, found.reason) == (6, 7, Unknown.NEVER_COMMITTED)
    assert merge_backlogs([found, found]).uncommitted_count == 14


def test_restarted_queues_are_distinguished_from_resumed_ones() -> None:
    found = sum_backlog([_part({0: (50, 100), 1: (50, 100), 2: (0, 100)}, {0: 20, 1: 50, 2: 101})])
    assert (found.lag, found.lost, found.beyond_max_count) == (100, 30, 1)
    assert found.behind == (UnreadPart("broker-a", "T", (1,), (0,)),)


def test_the_oldest_age_is_known_only_when_that_of_each_queue_is() -> None:
    spans = {0: ConsumeTimeSpan(5, 90), 1: ConsumeTimeSpan(None, 70), 2: ConsumeTimeSpan(-3, None)}
    assert oldest_age_ms(UnreadPart("b", "T", (0,), (1,)), spans) == 70
    assert oldest_age_ms(UnreadPart("b", "T", (2,), ()), spans) == 0
    assert oldest_age_ms(UnreadPart("b", "T", (0, 1), ()), spans) is None
    assert oldest_age_ms(UnreadPart("b", "T", (0, 9), ()), spans) is None


def test_offsets_of_queues_that_a_broker_does_not_have_are_leftovers() -> None:
    configs = {"T": _config(2, 4)}
    offsets = {"T": {0: 1, 3: 1, 4: 1}, "%LMQ%x": {0: 1}, "gone": {0: 1}}
    assert list(find_leftovers({**offsets, "%RETRY%H": {0: 1}}, configs)) == [("T", 4), ("gone", 0)]


def test_unread_messages_of_queues_that_were_cut_off_count_apart() -> None:
    cut = {2: TopicOffset(3, 10, None), 5: TopicOffset(0, 4, None), 6: TopicOffset(0, 9, None)}
    part = TopicPart("broker-a", "T", {0: 10, 2: 1, 5: 4, 6: 12}, {0: TopicOffset(0, 10, 0)}, None, cut_queues=cut)
    found = sum_backlog([part])
    assert (found.lag, found.reason) == (0, None)
    assert (found.unreadable_count, found.unreadable_queue_count, found.unreadable_end) == (7, 1, 3)
