from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqctl.text.names import closest

GROUPS = ["payments", "payments-eu", "payouts", "shipping", "Orders"]


def test_the_name_most_alike_comes_first() -> None:
    assert closest("paymnets", GROUPS)[0] == "payments"
    assert closest("payment-eu", GROUPS)[0] == "payments-eu"


def test_case_does_not_count() -> None:
    assert closest("orders", GROUPS) == ("Orders",)
    assert closest("SHIPPING", GROUPS) == ("shipping",)


def test_a_name_like_none_has_no_suggestion() -> None:
    assert closest("zzz", GROUPS) == ()
    assert closest("", GROUPS) == ()
    assert closest("payments", []) == ()


def test_there_are_at_most_three() -> None:
    assert len(closest("group-0", [f"group-{number}" for number in range(1, 10)])) == 3


def test_names_that_differ_in_case_only_are_one_suggestion() -> None:
    assert closest("ordrs", ["orders", "Orders", "ORDERS"]) == ("ORDERS",)


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=10))
def test_every_suggestion_is_an_existing_name(wanted: str, names: list[str]) -> None:
    assert set(closest(wanted, names)) <= set(names)
