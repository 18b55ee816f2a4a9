"""Files of checks: what they mean, and the one sentence about what is wrong with them."""

from __future__ import annotations

import pytest

from rmqctl.diagnose.finding import Severity
from rmqctl.errors import UsageError
from rmqctl.gate.estate import parse_estate
from rmqctl.gate.limits import GroupLimits, SeverityThreshold, Threshold

_GOOD = """
[defaults]
fail-on = "error"
max-lag = 1000

[[check]]
group = "billing"
warn-lag = 100
min-members = 3
context = "prod"

[[check]]
group = ["pay-*", "mail"]
topic = "orders"
max-lag = 5
max-time-lag = "10m"
dlq-window = "1h"
max-dlq-growth = 0
stable-for = "1m"
"""


def test_defaults_hold_unless_a_check_has_its_own() -> None:
    billing, pay, mail = parse_estate(_GOOD.encode(), "checks.toml")
    error = SeverityThreshold(critical=Severity.ERROR)
    assert (billing.context, billing.target.group, billing.target.topics) == ("prod", "billing", ())
    assert billing.target.limits == GroupLimits(lag=Threshold(100, 1000), members=Threshold(None, 3), severity=error)
    assert (pay.context, pay.target.group, pay.target.topics, mail.target.group) == (None, "pay-*", ("orders",), "mail")
    assert pay.target.limits == GroupLimits(
        lag=Threshold(None, 5), time_lag_ms=Threshold(None, 600_000), dead_letters=Threshold(None, 0), severity=error,
        window_ms=3_600_000, stable_for_ms=60_000,
    )  # fmt: skip


def test_the_former_name_of_a_limit_means_the_same() -> None:
    assert parse_estate(_GOOD.replace("fail-on", "no-severity").encode(), "f") == parse_estate(_GOOD.encode(), "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[check]]\ngroup = "a"\nfail-on = "error"\nno-severity = "error"', "former name"),
        ("", "no checks"),
        ("check = 1", "array of tables"),
        ("[[check]]\nmax-lag = 1", "names no group"),
        ('[[check]]\ngroup = "a"', "no limit"),
        ('[[check]]\ngroup = "a"\nmax-lags = 1', "max-lag"),
        ('[[check]]\ngroup = "a"\nmax-lag = "1"', "whole number"),
        ('[[check]]\ngroup = "a"\nmax-lag = true', "whole number"),
        ('[[check]]\ngroup = "a"\nmax-lag = -1', "0 or more"),
        ('[[check]]\ngroup = "a"\nmax-time-lag = 5', "no unit"),
        ('[[check]]\ngroup = "a"\nfail-on = "bad"', "severity"),
        ('[[check]]\ngroup = "a"\nmax-lag = 5\nwarn-lag = 6', "warn before"),
        ('[[check]]\ngroup = "a"\nmin-members = 5\nwarn-members = 4', "warn before"),
        ("[[check]]\ngroup = [1]\nmax-lag = 1", "group must be"),
        ('[[check]]\ngroup = "a"\nmax-lag = 1\ncontext = 1', "context must be"),
        ('[defaults]\ngroup = "a"\n[[check]]\ngroup = "a"', "Unknown key 'group'"),
        ('[[check]]\ngroup = "a"\nmax-lag = 1\n[[check]]\ngroup = ["b", "a"]\nmax-lag = 2', "already"),
        ("[[check]\n", "not valid TOML"),
        (b"\xff", "not valid TOML"),
    ],
)
def test_a_bad_file_gets_one_sentence(text: str | bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_estate(text if isinstance(text, bytes) else text.encode(), "checks.toml")
    assert said in f"{caught.value.sentence} {caught.value.hint}"
    assert "checks.toml" in caught.value.sentence
