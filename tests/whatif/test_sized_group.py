from __future__ import annotations

import pytest

from rmqctl.errors import UsageError
from rmqctl.rules.allocate import find_strategy
from rmqctl.whatif.group_snapshot import share_all
from rmqctl.whatif.sized_group import shape


@pytest.mark.parametrize(
    ("brokers", "queues", "clients", "counts"),
    [(5, 2, 3, [4, 3, 3]), (1, 8, 3, [3, 3, 2]), (2, 4, 3, [3, 3, 2]), (1, 2, 4, [1, 1, 0, 0]), (1, 1, 1, [1])],
)
def test_averagely_gives_the_first_one_more(brokers: int, queues: int, clients: int, counts: list[int]) -> None:
    shares = share_all(shape(brokers, queues, clients), find_strategy("averagely"))
    assert [len(share) for share in shares.values()] == counts


def test_by_circle_deals_them_out() -> None:
    shares = share_all(shape(1, 8, 3), find_strategy("circle"))
    assert [[mq.queue_id for mq in share] for share in shares.values()] == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_names_sort_by_number() -> None:
    snapshot = shape(10, 1, 100)
    assert list(snapshot.queues) == sorted(snapshot.queues)
    assert list(snapshot.client_ids) == sorted(snapshot.client_ids)
    assert (snapshot.queues[0].broker_name, snapshot.client_ids[0], snapshot.client_ids[-1]) == (
        "broker-01", "client-001", "client-100",
    )  # fmt: skip


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (-1, 1, 1)])
def test_a_size_below_1_is_refused_and_named(size: tuple[int, int, int]) -> None:
    option = ("--brokers", "--queues", "--consumers")[[count < 1 for count in size].index(True)]
    with pytest.raises(UsageError) as caught:
        shape(*size)
    assert caught.value.sentence == f"{option} {min(size)}: the number must be at least 1."


@pytest.mark.parametrize("size", [(10**9, 1, 1), (1001, 1000, 1), (1, 1, 10**18)])
def test_a_size_that_no_machine_can_hold_is_refused(size: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="at most 1000000 queues and 1000000 clients"):
        shape(*size)
