"""The options of rmqctl whatif churn, read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqctl.cli.arguments import milliseconds_option
from rmqctl.errors import UsageError
from rmqctl.observe.recording_files import read_recordings
from rmqctl.text.durations import exact_duration
from rmqctl.text.numbers import decimal_number, whole_number
from rmqctl.text.option_errors import option_errors
from rmqctl.text.words import listed
from rmqctl.whatif.churn.changes import Departure
from rmqctl.whatif.churn.group import TIMINGS
from rmqctl.whatif.churn.scenarios import ChurnScenario, ScenarioKind, require_possible
from rmqctl.whatif.churn.timing import ClientTiming
from rmqctl.whatif.churn.trace import ChurnTrace, read_trace

_PERIOD_MS, _DOWN_MS = 30_000, 10_000


def read_scenario(
    given: Mapping[str, str | None], down: str | None, departure: Departure, *, new_ids: bool
) -> ChurnScenario:
    """Return the scenario of the options for one, by their names, at most one of which is given. Raises UsageError."""
    chosen = {name: text for name, text in given.items() if text is not None}
    if len(chosen) > 1:
        raise UsageError(f"Use only one of {', '.join(f'--{name}' for name in chosen)}.")
    name, text = next(iter(chosen.items()), ("rolling", exact_duration(_PERIOD_MS)))
    kind, option = ScenarioKind(name), f"--{name}"
    if down is not None and kind is not ScenarioKind.ROLLING:
        raise UsageError("--down is for --rolling only.")
    period, _, place = text.partition(":")
    if kind is ScenarioKind.SCALE:
        with option_errors(option):
            count, period_ms = whole_number(text), 0
    else:
        count, period_ms = 0, milliseconds_option(option, period)
    client_id, broker_name = ("", place) if kind is ScenarioKind.BROKER_FLAP else (place, "")
    scenario = ChurnScenario(
        kind=kind,
        period_ms=period_ms,
        client_id=client_id,
        broker_name=broker_name,
        count=count,
        down_ms=_DOWN_MS if down is None else milliseconds_option("--down", down),
        departure=departure,
        new_ids=new_ids,
    )
    require_possible(scenario)
    return scenario


def read_departure(text: str) -> Departure:
    """Return how clients leave. Raises UsageError."""
    if text not in set(Departure):
        raise UsageError(f"--leave {text}: use stop, kill or vanish.")
    return Departure(text)


def read_trace_files(
    files: Sequence[str], groups: Sequence[str], topics: Sequence[str], departure: Departure
) -> ChurnTrace:
    """Return what recordings show of one group, the only one if `groups` is empty. Raises UsageError, NotFoundError."""
    if departure is Departure.VANISH:
        raise UsageError(
            "--leave vanish and --trace cannot be combined.",
            hint="A recording shows when brokers dropped a client, and whether it answered until then.",
        )
    recorded = list(read_recordings(files, groups))
    found = sorted({each.sample.group for each in recorded})
    if len(found) > 1:
        raise UsageError(f"The recording has {len(found)} groups: {listed(found)}.", hint="Name one of them as GROUP.")
    clusters = sorted({each.cluster or "" for each in recorded})
    if len(clusters) > 1:
        raise UsageError(f"The recording has group {found[0]} in {len(clusters)} clusters: {listed(clusters)}.")
    return read_trace([each.sample for each in recorded], topics=topics, departure=departure)


def time_ms(option: str, text: str | None) -> int | None:
    """Return the milliseconds of an option that may be missing. Raises UsageError."""
    return None if text is None else milliseconds_option(option, text)


def times_ms(option: str, texts: Sequence[str] | None) -> list[int]:
    """Return the milliseconds of a repeatable option. Raises UsageError."""
    return [milliseconds_option(option, text) for text in texts or ()]


def read_rate(text: str | None) -> float | None:
    """Return the messages per second that are given. Raises UsageError."""
    if text is None:
        return None
    with option_errors("--rate"):
        rate = decimal_number(text)
    if rate < 0:
        raise UsageError(f"--rate {text}: the rate must not be negative.")
    return rate


def read_version_rule(text: str) -> bool:
    """Return whether brokers refuse pulls of clients with older versions. Raises UsageError."""
    if text not in ("rocketmq", "refuse-older"):
        raise UsageError(f"--version-rule {text}: use rocketmq or refuse-older.")
    return text == "refuse-older"


def read_timing(version: str | None) -> ClientTiming | None:
    """Return the timing of the version that is given for all clients. Raises UsageError."""
    if version is not None and version not in TIMINGS:
        raise UsageError(f"--client-version {version}: use one of {', '.join(TIMINGS)}.")
    return None if version is None else TIMINGS[version]
