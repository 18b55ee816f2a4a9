from __future__ import annotations

from rmqctl.rules.protection import Presence, counted_clients, look, next_change_ms, since_notified_ms, waiting_clients

MINUTE_MS = 60_000


def _presence(*long: str, **since_ms: int) -> Presence:
    """Return the presence of clients that are there for long, and of those that joined at a time."""
    return Presence(frozenset({*long, *since_ms}), since_ms)


def test_at_the_first_look_all_others_have_been_there_already() -> None:
    assert look(None, ["c1", "c2"], 1000, own_id="c2") == _presence("c1", c2=1000)
    assert look(None, ["c1"], 1000) == look(None, ["c1"], 1000, own_id="c2") == _presence("c1")


def test_who_stays_keeps_its_time_and_who_was_missing_begins_anew() -> None:
    first = look(None, ["c1", "c2"], 0)
    gone = look(first, ["c1"], 1000)
    back = look(gone, ["c1", "c2"], 2000)
    assert back == _presence("c1", c2=2000)
    assert look(back, ["c1", "c2"], 9000) == back


def test_new_clients_have_joined_when_a_broker_said_so_if_that_was_within_the_pause_before() -> None:
    assert since_notified_ms(None, 5000, 1000) is None
    assert since_notified_ms(4300, 5000, 1000) == 4300
    assert since_notified_ms(3000, 5000, 1000) == 4000
    before = look(None, ["c1"], 0)
    assert look(before, ["c1", "c2"], 5000, joined_ms=4300) == _presence("c1", c2=4300)


def test_a_client_counts_once_it_has_been_there_for_long_enough() -> None:
    presence = _presence("c1", c2=1000)
    for now_ms, counted, waiting in ((1000 + MINUTE_MS - 1, ["c1"], {"c2"}), (1000 + MINUTE_MS, ["c1", "c2"], set())):
        assert counted_clients(presence, now_ms, MINUTE_MS) == counted
        assert waiting_clients(presence, now_ms, MINUTE_MS) == waiting


def test_without_protection_all_count_at_once() -> None:
    assert counted_clients(_presence("c1", c2=1000), 1000, 0) == ["c1", "c2"]


def test_where_nobody_has_been_there_long_enough_those_share_who_came_first() -> None:
    assert counted_clients(_presence(c2=5, c1=9), 10, MINUTE_MS) == ["c2"]
    assert counted_clients(_presence(c2=5, c1=5), 10, MINUTE_MS) == ["c1", "c2"]
    assert counted_clients(_presence(), 10, MINUTE_MS) == []


def test_clients_that_come_one_after_another_agree_on_who_counts() -> None:
    first = look(look(None, ["c1"], 0, own_id="c1"), ["c1", "c2"], 20_000)
    second = look(None, ["c1", "c2"], 20_000, own_id="c2")
    for now_ms, expected in ((20_000, ["c1"]), (20_000 + MINUTE_MS, ["c1", "c2"])):
        assert counted_clients(first, now_ms, MINUTE_MS) == expected
        assert counted_clients(second, now_ms, MINUTE_MS) == expected


def test_counted_clients_are_sorted_as_java_sorts() -> None:
    # By UTF-16 units an emoji comes before U+FF5E, by code points after it.
    presence = _presence("c\uff5e", "c\U0001f600", "B", "a")
    assert counted_clients(presence, 0, 1) == ["B", "a", "c\U0001f600", "c\uff5e"]


def test_the_next_change_is_when_the_first_of_those_who_wait_begins_to_count() -> None:
    presence = _presence("c1", c2=1000, c3=500)
    assert next_change_ms(presence, 2000, MINUTE_MS) == 500 + MINUTE_MS
    assert next_change_ms(presence, 500 + MINUTE_MS, MINUTE_MS) == 1000 + MINUTE_MS
    assert next_change_ms(presence, 1000 + MINUTE_MS, MINUTE_MS) is None
    assert next_change_ms(_presence(), 0, MINUTE_MS) is None


def test_a_client_that_flaps_faster_than_it_may_count_never_counts() -> None:
    presence = look(None, ["steady", "flapping"], 0)
    counted = []
    for turn in range(1, 20):
        ids = ["steady"] if turn % 2 else ["steady", "flapping"]
        presence = look(presence, ids, turn * 10_000)
        counted.append(counted_clients(presence, turn * 10_000, MINUTE_MS))
    assert counted == [["steady"]] * 19
