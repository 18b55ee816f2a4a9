from __future__ import annotations

from rmqctl.client.rules.views import differing_views


def test_servers_that_tell_the_same_differ_in_nothing() -> None:
    assert differing_views({}) == {}
    assert differing_views({"a": {"x", "y"}, "b": {"y", "x"}}) == {}


def test_a_server_is_named_with_what_it_leaves_out() -> None:
    views = {"a": {"x", "y", "z"}, "b": {"x"}, "c": {"w", "x", "y", "z"}}
    assert differing_views(views) == {"a": ("w",), "b": ("w", "y", "z")}
