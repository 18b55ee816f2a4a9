from __future__ import annotations

import pytest

from rmqctl.rules.dead_letters import DeadLetterReason, given_up, origin_message_id, origin_topic


@pytest.mark.parametrize(
    ("reconsume_times", "properties", "expected"),
    [
        (3, {"MAX_RECONSUME_TIMES": "3", "RETRY_TOPIC": "T"}, DeadLetterReason.MAX_RECONSUME_TIMES),
        (1, {"MAX_RECONSUME_TIMES": "1"}, DeadLetterReason.MAX_RECONSUME_TIMES),
        (2, {"MAX_RECONSUME_TIMES": "16", "RETRY_TOPIC": "T"}, DeadLetterReason.AFTER_RETRIES),
        (2, {"MAX_RECONSUME_TIMES": "many"}, DeadLetterReason.AFTER_RETRIES),
        (1, {"RETRY_TOPIC": "T"}, DeadLetterReason.FIRST_FAILURE),
        (0, {}, DeadLetterReason.SENT_THERE),
        (0, {"DLQ_ORIGIN_TOPIC": "T"}, None),
    ],
)
def test_why_it_was_given_up(
    reconsume_times: int, properties: dict[str, str], expected: DeadLetterReason | None
) -> None:
    assert given_up(reconsume_times, properties) is expected


def test_where_it_came_from() -> None:
    assert origin_topic({"RETRY_TOPIC": "T", "DLQ_ORIGIN_TOPIC": "U"}) == "T"
    assert origin_topic({"RETRY_TOPIC": "", "DLQ_ORIGIN_TOPIC": "U"}) == "U"
    assert origin_topic({}) is None
    assert origin_message_id({"ORIGIN_MESSAGE_ID": "1"}) == "1"
    assert origin_message_id({"ORIGIN_MESSAGE_ID": "1", "DLQ_ORIGIN_MESSAGE_ID": "2"}) == "2"
