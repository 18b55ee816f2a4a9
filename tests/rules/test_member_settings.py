from __future__ import annotations

import pytest

from rmqctl.model.group import RunningInfo
from rmqctl.rules.member_settings import NO_LIMIT, MemberSettings, member_settings, retry_limit


def _settings(**properties: str) -> MemberSettings:
    return member_settings(RunningInfo(properties, {}, {}))


def test_a_java_client_reports_its_settings_as_texts() -> None:
    told = _settings(
        consumeFromWhere="CONSUME_FROM_TIMESTAMP", maxReconsumeTimes="-1", consumeTimeout="15",
        PROP_CONSUMEORDERLY="true",
    )  # fmt: skip
    assert told == MemberSettings("CONSUME_FROM_TIMESTAMP", -1, 900_000, is_orderly=True)
    assert _settings(consumeTimeout="0.5").consume_timeout_ms == 30_000


@pytest.mark.parametrize("text", ["", "x", "1" * 30, "-", "nan", "inf", "1e300", "\u0661"])
def test_what_is_no_number_is_not_known(text: str) -> None:
    told = _settings(maxReconsumeTimes=text, consumeTimeout=text)
    assert told.max_reconsume_times is None
    assert told.consume_timeout_ms is None or text == "\u0661"
    assert _settings() == MemberSettings(None, None, None, is_orderly=None)


@pytest.mark.parametrize(("text", "size"), [("16", 16), ("0", None), ("-1", None), ("x", None), ("", None)])
def test_how_many_messages_a_call_gets(text: str, size: int | None) -> None:
    assert _settings(consumeMessageBatchMaxSize=text).batch_size == size


@pytest.mark.parametrize(
    ("max_reconsume_times", "is_orderly", "limit"),
    [(-1, False, 16), (-1, True, NO_LIMIT), (-1, None, None), (0, None, 0), (2, True, 2), (None, False, None)],
)
def test_a_limit_of_minus_one_is_the_default_of_how_it_consumes(
    max_reconsume_times: int | None, is_orderly: bool | None, limit: int | None
) -> None:
    assert retry_limit(max_reconsume_times, is_orderly=is_orderly) == limit
