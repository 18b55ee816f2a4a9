"""Messages in a broker's store: what is kept, what is forgotten, and where queues begin then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.sandbox.storage.commit_log import CommitLog
from rmqctl.sandbox.storage.store import GetStatus, MessageStore
from tests.sandbox.storage.store_access import CAPACITY_BYTES, HOST, Disk, bodies, message, no_code, put


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MessageStore]:
    if request.param == "memory":
        yield MessageStore(CommitLog(4096), CAPACITY_BYTES)
        return
    disk = Disk(tmp_path)
    yield disk.store
    disk.close()


def test_messages_come_out_as_they_went_in(store: MessageStore) -> None:
    put(store, *(message("T", number % 3, b"%d" % number, TAGS="A") for number in range(200)))
    for queue_id in range(3):
        assert bodies(store, "T", queue_id) == [b"%d" % number for number in range(200) if number % 3 == queue_id]
    assert len(store.log.segments) > 2


def test_a_batch_is_stored_as_a_whole_or_not_at_all(store: MessageStore) -> None:
    placed = store.put_all([message(body=b"1"), message(body=b"2")], now_ms=1, store_host=HOST)
    assert [place.queue_offset for place in placed] == [0, 1]
    with pytest.raises(ValueError, match="separator"):
        store.put_all([message(body=b"3"), message(body=b"4", name="\x02")], now_ms=1, store_host=HOST)
    put(store, message(body=b"5"))
    assert bodies(store) == [b"1", b"2", b"5"]


def test_old_messages_are_forgotten_and_a_queue_goes_on_counting(store: MessageStore) -> None:
    put(store, *(message(body=b"old") for _ in range(50)), now_ms=1000)
    put(store, *(message(body=b"new", queue_id=number % 2) for number in range(4)), now_ms=2000)
    store.drop_stored_before(1500)
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (50, 52)
    assert store.get("T", 0, 3, 32).status is GetStatus.OFFSET_TOO_SMALL
    store.drop_stored_before(2500)
    assert (store.min_offset("T", 0), store.max_offset("T", 0), bodies(store)) == (52, 52, [])
    assert store.log.start > 0
    assert put(store, message(body=b"newest"))[0].queue_offset == 52


def test_a_topic_that_is_made_anew_counts_from_0(store: MessageStore) -> None:
    put(store, *(message(body=b"old") for _ in range(5)))
    store.delete_topic("T")
    assert store.find_queue("T", 0) is None
    assert [place.queue_offset for place in put(store, message(body=b"new"), message(body=b"newer"))] == [0, 1]
    assert bodies(store) == [b"new", b"newer"]


def test_a_power_cut_takes_what_was_not_flushed(store: MessageStore) -> None:
    put(store, message(body=b"1", KEYS="k"), message(body=b"2", KEYS="k"))
    store.flush()
    put(store, message(body=b"3", KEYS="k"), message("Other", 1, b"4"))
    store.lose_unflushed(no_code)
    assert bodies(store) == [b"1", b"2"]
    assert store.find_queue("Other", 1) is None
    assert len(list(store.index.newest_first("T", "k"))) == 2
    assert put(store, message(body=b"5"))[0].queue_offset == 2


def test_a_message_is_found_by_its_place_and_its_keys(store: MessageStore) -> None:
    placed = put(
        store, *(message(body=b"%d" % number, KEYS=f"k{number} all", UNIQ_KEY=f"id{number}") for number in (0, 1))
    )
    found = store.message_in_log(placed[1].commit_log_offset)
    assert found is not None
    assert found.body == b"1"
    assert store.message_in_log(placed[1].commit_log_offset + 1) is None
    assert list(store.index.newest_first("T", "all")) == [place.commit_log_offset for place in reversed(placed)]
    assert list(store.index.newest_first("T", "id0")) == [placed[0].commit_log_offset]
