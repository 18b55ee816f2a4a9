from __future__ import annotations

from rmqctl.rules.protection import Presence, counted_clients, look, next_change_ms

MINUTE_MS = 60_000


def test_at_the_first_look_all_others_have_been_there_already() -> None:
    presence = look(None, ["c1", "c2"], 1000, own_id="c2")
    assert presence.since_ms == {"c1": None, "c2": 1000}
    assert look(None, ["c1"], 1000).since_ms == {"c1": None}


def test_who_stays_keeps_its_time_and_who_was_missing_begins_anew() -> None:
    first = look(None, ["c1", "c2"], 0)
    gone = look(first, ["c1"], 1000)
    back = look(gone, ["c1", "c2"], 2000)
    assert back.since_ms == {"c1": None, "c2": 2000}
    assert look(back, ["c1", "c2"], 9000) == back


def test_a_client_counts_once_it_has_been_there_for_long_enough() -> None:
    presence = Presence({"c1": None, "c2": 1000})
    assert counted_clients(presence, 1000 + MINUTE_MS - 1, MINUTE_MS) == ["c1"]
    assert counted_clients(presence, 1000 + MINUTE_MS, MINUTE_MS) == ["c1", "c2"]


def test_without_protection_all_count_at_once() -> None:
    assert counted_clients(Presence({"c2": 1000, "c1": None}), 1000, 0) == ["c1", "c2"]


def test_where_nobody_has_been_there_long_enough_those_share_who_came_first() -> None:
    assert counted_clients(Presence({"c2": 5, "c1": 9}), 10, MINUTE_MS) == ["c2"]
    assert counted_clients(Presence({"c2": 5, "c1": 5}), 10, MINUTE_MS) == ["c1", "c2"]
    assert counted_clients(Presence({}), 10, MINUTE_MS) == []


def test_clients_that_come_one_after_another_agree_on_who_counts() -> None:
    first = look(look(None, ["c1"], 0, own_id="c1"), ["c1", "c2"], 20_000)
    second = look(None, ["c1", "c2"], 20_000, own_id="c2")
    for now_ms, expected in ((20_000, ["c1"]), (20_000 + MINUTE_MS, ["c1", "c2"])):
        assert counted_clients(first, now_ms, MINUTE_MS) == expected
        assert counted_clients(second, now_ms, MINUTE_MS) == expected


def test_counted_clients_are_sorted_as_java_sorts() -> None:
    # By UTF-16 units an emoji comes before U+FF5E, by code points after it.
    presence = Presence({"c\uff5e": None, "c\U0001f600": None, "B": None, "a": None})
    assert counted_clients(presence, 0, 1) == ["B", "a", "c\U0001f600", "c\uff5e"]


def test_the_next_change_is_when_the_first_of_those_who_wait_begins_to_count() -> None:
    presence = Presence({"c1": None, "c2": 1000, "c3": 500})
    assert next_change_ms(presence, 2000, MINUTE_MS) == 500 + MINUTE_MS
    assert next_change_ms(presence, 500 + MINUTE_MS, MINUTE_MS) == 1000 + MINUTE_MS
    assert next_change_ms(presence, 1000 + MINUTE_MS, MINUTE_MS) is None
    assert next_change_ms(Presence({}), 0, MINUTE_MS) is None


def test_a_client_that_flaps_faster_than_it_may_count_never_counts() -> None:
    presence = look(None, ["steady", "flapping"], 0)
    counted = []
    for turn in range(1, 20):
        ids = ["steady"] if turn % 2 else ["steady", "flapping"]
        presence = look(presence, ids, turn * 10_000)
        counted.append(counted_clients(presence, turn * 10_000, MINUTE_MS))
    assert counted == [["steady"]] * 19
