from __future__ import annotations

import pytest

from rmqctl.errors import NotAuthorisedError, RmqctlError, UnreachableError
from rmqctl.rules.group_state import unheard

_SILENT = UnreachableError("a:1", "no answer")
_NEEDS_GET = NotAuthorisedError("a:1 refused the request.", right="Get on Group:G")


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([], []),
        ([("broker-b", _SILENT), ("broker-a", None)], ["broker-a, broker-b did not answer"]),
        ([("a", _NEEDS_GET), ("b", _NEEDS_GET)], ["a, b refused what needs Get on Group:G"]),
        ([("broker-a", NotAuthorisedError("no."))], ["broker-a refused what needs another permission"]),
        (
            [("broker-a", _NEEDS_GET), ("broker-a", NotAuthorisedError("no.", right="Get on Topic:T")), ("c", _SILENT)],
            ["c did not answer", "broker-a refused what needs Get on Group:G",
             "broker-a refused what needs Get on Topic:T"],
        ),
    ],
)  # fmt: skip
def test_who_refused_is_told_apart_from_who_did_not_answer(
    errors: list[tuple[str, RmqctlError | None]], said: list[str]
) -> None:
    assert list(unheard(errors)) == said
