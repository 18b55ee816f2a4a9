from __future__ import annotations

import pytest

from rmqctl.admin.rules.passage import Verdict, judge
from rmqctl.model.progress import Unknown


@pytest.mark.parametrize(
    ("offset", "facts", "expected"),
    [
        (10, {}, Verdict.NOT_YET),
        (11, {}, Verdict.PASSED),
        (20, {}, Verdict.PASSED),
        (21, {}, Unknown.OFFSET_BEYOND_MAX),
        (21, {"max_offset": None}, Verdict.PASSED),
        (11, {"is_match": True}, Verdict.PASSED),
        (11, {"is_match": False}, Verdict.FILTERED),
        (10, {"is_match": False}, Verdict.NOT_YET),
        (11, {"is_pop": True}, Unknown.POP),
        (10, {"is_pop": True}, Verdict.NOT_YET),
        (11, {"is_broadcasting": True}, Unknown.BROADCASTING),
        (Unknown.NEVER_COMMITTED, {}, Unknown.NEVER_COMMITTED),
        (Unknown.NEVER_COMMITTED, {"is_broadcasting": True}, Unknown.BROADCASTING),
    ],
)
def test_the_verdict_on_a_message_at_offset_10(
    offset: int | Unknown, facts: dict[str, bool | None], expected: Verdict | Unknown
) -> None:
    usual = {"max_offset": 20, "is_broadcasting": False, "is_pop": False, "is_match": None}
    assert judge(10, offset, **{**usual, **facts}) is expected  # type: ignore[arg-type]
