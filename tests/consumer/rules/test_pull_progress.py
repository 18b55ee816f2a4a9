from __future__ import annotations

import pytest

from rmqctl.consumer.rules.pull_progress import offset_to_commit, offset_without_messages


@pytest.mark.parametrize(("memory_offset", "expected"), [(None, None), (0, None), (1, 1), (9, 9)])
def test_7_5_a_pull_commits_only_above_offset_0(memory_offset: int | None, expected: int | None) -> None:
    assert offset_to_commit(memory_offset, is_clustering=True, is_slave=False) == expected


def test_7_5_a_pull_commits_nothing_to_a_slave_and_nothing_when_broadcasting() -> None:
    assert offset_to_commit(9, is_clustering=True, is_slave=True) is None
    assert offset_to_commit(9, is_clustering=False, is_slave=False) is None


def test_7_5_an_answer_without_messages_moves_the_position_when_nothing_is_cached() -> None:
    assert offset_without_messages(120, cached_count=0) == 120
    assert offset_without_messages(120, cached_count=1) is None
