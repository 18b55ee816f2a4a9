from __future__ import annotations

import pytest

from rmqctl.consumer.rules.subscriptions import make_subscription, retry_subscription
from rmqctl.model.group import Subscription

TAG_A, TAG_B = 2598919, 2598920


@pytest.mark.parametrize("expression", ["*", " * ", "", "  "])
def test_all_messages(expression: str) -> None:
    assert make_subscription("T", expression, version_ms=7) == Subscription("T", "*", version_ms=7)


def test_tags_keep_their_expression_as_it_was_written() -> None:
    subscription = make_subscription("T", " TagB || TagA||TagA ", version_ms=7)
    assert subscription.expression == " TagB || TagA||TagA "
    assert (subscription.tags, subscription.codes) == ({"TagA", "TagB"}, {TAG_A, TAG_B})
    assert (subscription.expression_type, subscription.version_ms) == ("TAG", 7)


def test_tags_whose_hashes_are_the_same_are_one_code() -> None:
    subscription = make_subscription("T", "Aa || BB")
    assert (subscription.tags, subscription.codes) == ({"Aa", "BB"}, {2112})


def test_sql92_has_no_tags() -> None:
    subscription = make_subscription("T", "a > 1 AND TAGS IN ('x')", "SQL92")
    assert subscription == Subscription("T", "a > 1 AND TAGS IN ('x')", "SQL92")


@pytest.mark.parametrize(
    ("topic", "expression", "expression_type", "sentence"),
    [
        (" ", "*", "TAG", "topic of a subscription is empty"),
        ("T", "||", "TAG", "contains no tag"),
        ("T", "a >", "SQL92", "invalid SQL92 expression 'a >': "),
        ("T", " ", "SQL92", "the SQL92 expression for T is empty"),
        ("T", "*", "XPATH", "unknown expression type 'XPATH'"),
    ],
)
def test_what_would_silently_deliver_nothing_is_refused(
    topic: str, expression: str, expression_type: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_subscription(topic, expression, expression_type)


def test_a_group_has_its_retry_topic() -> None:
    assert retry_subscription("NS%G", version_ms=3) == Subscription("%RETRY%NS%G", version_ms=3)
