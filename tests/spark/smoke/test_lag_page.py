"""The page of the job lag. It needs matplotlib, which is where Spark is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.lag.groups import count_health
from rmqctl.pipeline.report.lag_page import LagPage, heat_rows, render_page, set_back, summary
from rmqctl.pipeline.report.lag_series import GroupSeries, LagPoint, LagWindow
from rmqctl.pipeline.report.plots import lag_plot
from tests.page.reader import PageReader

HOUR_MS = 3_600_000
START_MS = 1_794_301_200_000  # 2026-11-10T09:00:00Z
EVIL = '</title><script>alert("1")</script>&\'$x'


def _row(group: str, health: str = "STALL", **other: Any) -> dict[str, Any]:
    return {
        "clusterLabel": "L", "cluster": "c1", "group": group, "health": health, "queueCount": 2, "counts": {},
        "lag": 1234, "lagAtLeast": 1234, "lost": 0, "unknownCount": 0,
        "leftTopics": [], "goneTopics": [], "lagAtStart": 7, "slopeMsgsPerS": -0.5,
        "produceMsgsPerS": 1.0, "consumeMsgsPerS": 1.5,
        "etaS": 90.0, "etaMs": 90_000, "worstQueue": f"{group}@b:1", "cause": "STANDS_STILL", "reason": "it stands",
        "stuckCount": 1, "lagSkew": 1.5, "memberLagSkew": 2.0, "memberConsumeSkew": None, "ownerChangeCount": 3,
        "clientCount": 2,
        "stuckQueues": [{"topic": group, "brokerName": "b", "queueId": 1, "consumerOffset": 5, "behind": 1234,
                         "sinceTimestamp": START_MS, "forMs": HOUR_MS, "afterTimestamp": None,
                         "clientId": f"{group}#1"}],
        "topics": [{"topic": group, "queueCount": 2, "lag": None, "lagSkew": 1.5, "produceSkew": None,
                    "consumeSkew": 1.0}],
        "members": [{"clientId": f"{group}#1", "queueCount": 2, "lag": 9, "consumeMsgsPerS": None}],
    } | other  # fmt: skip


def _page(*rows: dict[str, Any], lag: tuple[int | None, ...] = (10, None, 30, 40)) -> LagPage:
    facts = {
        "windowMs": HOUR_MS, "groupCount": len(rows), "queueCount": 2, "snapshotCount": 4,
        "windowEndTimestamp": START_MS, "sinceTimestamp": START_MS - HOUR_MS, "newestSnapshotTimestamp": START_MS,
        "groupCounts": count_health(rows), "clusterLabels": sorted({row["clusterLabel"] for row in rows}),
    }  # fmt: skip
    series = {
        (row["clusterLabel"], row["cluster"], row["group"]): _series(row["group"], row["health"], lag) for row in rows
    }
    return LagPage(facts, rows, len(rows), series)


def _series(group: str, health: str, lag: Sequence[int | None]) -> GroupSeries:
    """Return a snapshot at the end of each hour; in the last one, the offset of a queue was set back."""
    starts_ms = [START_MS + at * HOUR_MS for at in range(len(lag))]
    ends_ms = [at_ms + HOUR_MS for at_ms in starts_ms]
    points = [
        LagPoint(at_ms, value, int(at_ms == ends_ms[-1]), at % 2 * 2)
        for at, (at_ms, value) in enumerate(zip(ends_ms, lag, strict=True))
    ]
    windows = [LagWindow(start_ms, end_ms, health) for start_ms, end_ms in zip(starts_ms, ends_ms, strict=True)]
    known = {start_ms: (value, health) for start_ms, value in zip(starts_ms[:-1], lag, strict=False)}
    return GroupSeries(points, windows, {MessageQueue(group, "b", 1): known})


def test_a_page_is_whole_and_needs_nothing_else() -> None:
    text = render_page(_page(_row("G"), _row("H", "OK")))
    read = PageReader(text)
    assert read.open == []
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in read.tags}
    for tag, attributes in read.tags:
        assert not {"src", "href", "srcset", "onload", "onclick"} & attributes.keys()
        assert str(attributes.get("xlink:href", "#")).startswith("#")
        if "style" in attributes and tag not in ("g", "path", "text", "use"):
            assert tag == "i"
            assert re.fullmatch(r"opacity:[01]\.\d\d", attributes["style"] or "")
    assert re.search(r"url\(|@import|https?:", text) is None
    policy = next(each["content"] for each in read.all("meta") if each.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert any(each.get("name") == "viewport" for each in read.all("meta"))
    assert "@media print" in text
    # Once more, the same bytes.
    assert render_page(_page(_row("G"), _row("H", "OK"))) == text


def test_names_are_never_html() -> None:
    text = render_page(_page(_row(EVIL, cluster=EVIL, worstQueue=EVIL, reason=EVIL)))
    plain = PageReader(render_page(_page(_row("G"))))
    read = PageReader(text)
    assert Counter(tag for tag, _ in read.tags) == Counter(tag for tag, _ in plain.tags)
    assert "<script" not in text
    assert any(EVIL in words for words in read.words)
    # In attributes as well.
    assert [list(attributes) for _, attributes in read.tags] == [list(attributes) for _, attributes in plain.tags]


def test_who_can_not_see_a_plot_is_told() -> None:
    read = PageReader(render_page(_page(_row("G"), _row("H"))))
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    plots = read.all("svg")
    assert len(plots) == 2
    for plot in plots:
        assert plot["role"] == "img"
        assert set((plot["aria-labelledby"] or "").split()) <= set(ids)
    words = "".join(read.words)
    assert "From 10 to 40, maximum 40 at 11-10 13:00 UTC. It is unknown in 1 of 4." in words
    assert "Offsets set back: 11-10 13:00 (1 queue)." in words
    assert "4 changes of queue owners." in words
    assert summary([LagPoint(1, None)]) == "The lag is unknown in every snapshot."
    assert len(read.all("table")) == len(read.all("caption")) == 7
    assert {each.get("scope") for each in read.all("th")} == {"col", "row"}
    assert read.all("html") == [{"lang": "en"}]


def _luminance(colour: str) -> float:
    full = colour.removeprefix("#")
    full = "".join(2 * letter for letter in full) if len(full) == 3 else full
    parts = [int(full[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_words_can_be_read_in_light_dark_and_print() -> None:
    text = render_page(_page(_row("G")))
    schemes = re.findall(r":root \{([^}]*--back[^}]*)\}", text)
    assert len(schemes) == 3
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#\w+)", scheme))
        for back in ("back", "card"):
            for name in ("text", "soft", "bad", "warn", "good", "none", "line"):
                light, dark = sorted((_luminance(colours[name]), _luminance(colours[back])), reverse=True)
                # WCAG 2, AA
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, back)


def test_unknown_is_said() -> None:
    page = _page(_row("G", "UNKNOWN", lag=None, slopeMsgsPerS=None, etaMs=None))
    words = "".join(PageReader(render_page(page)).words)
    assert "unknown" in words
    assert "not at this pace" not in words
    assert "not at this pace" in "".join(PageReader(render_page(_page(_row("G", etaMs=None)))).words)
    assert "None" not in words


def test_what_is_not_there_has_no_heading() -> None:
    quiet = _row("G", "OK", stuckQueues=[], topics=[], ownerChangeCount=0, memberLagSkew=None, stuckCount=0)
    headings = re.findall("<h2>(.*?)</h2>", render_page(_page(quiet)._replace(series={})))
    assert headings == ["Groups"]
    full = re.findall("<h2>(.*?)</h2>", render_page(_page(_row("G"))))
    assert full == [
        "Groups",
        "Over time",
        "Stuck queues",
        "Skew between queues",
        "Skew between members",
        "Changing owners",
    ]


def test_groups_without_trouble_are_folded() -> None:
    rows = (_row("Bad"), _row("Good", "OK"), _row("Unseen", "OK", lag=None), _row("Left", "LEFT", lag=None))
    read = PageReader(render_page(_page(*rows)))
    # The table of the folded ones, and a plot of each group.
    assert ["open" in each for each in read.all("details")] == [False, True, False, True, False]
    assert "2 groups without trouble" in read.words
    healthy = PageReader(render_page(_page(_row("Good", "OK"))))
    assert ["open" in each for each in healthy.all("details")] == [True, False]


def test_times_of_resets_are_named_up_to_a_number() -> None:
    points = [LagPoint(START_MS + at * HOUR_MS, 1, at % 3) for at in range(9)]
    assert set_back(points).startswith("11-10 17:00 (2 queues), 11-10 16:00 (1 queue), ")
    assert set_back(points).endswith(", 1 more")
    assert set_back(points[:1]) == ""


def test_there_are_more_than_a_table_shows() -> None:
    page = _page(*(_row(f"G{number}") for number in range(120)))._replace(group_count=500, series={})
    words = "".join(PageReader(render_page(page)).words)
    assert "The worst 120 of 500 groups." in words
    assert "The first 100 of 120 queues." in words


def test_a_line_has_every_snapshot_and_gaps_where_the_lag_is_unknown() -> None:
    line = _lines([0, 50, None, 100])[0]
    # From the first to the second; the last one is only a point.
    assert [name for name, _, _ in line] == ["M", "L", "M"]
    (x0, y0), (x1, y1), (x2, y2) = ((x, y) for _, x, y in line)
    assert x2 - x1 == pytest.approx(2 * (x1 - x0), rel=1e-4)
    assert y0 - y2 == pytest.approx(2 * (y0 - y1), rel=1e-4)
    assert _lines([None] * 4)[0] == []
    assert {y for _, _, y in _lines([0, 0, 0, 0])[0]} == {_lines([0, 50, None, 100])[0][0][2]}
    # A peak of one snapshot among thousands is at its place and height.
    many = [10] * 5_000
    many[2_000] = 100
    steps = _lines(many)[0]
    assert len(steps) < 3_000
    top = min(steps, key=lambda step: step[2])
    assert (top[1] - steps[0][1]) / (steps[-1][1] - steps[0][1]) == pytest.approx(2_000 / 4_999, rel=1e-2)


_STEP = re.compile(r"([ML]) ([\d.]+) ([\d.]+)")


def _lines(lag: Sequence[int | None]) -> list[list[tuple[str, float, float]]]:
    """Return the steps of the lines of a plot."""
    points = [LagPoint((at + 1) * 100, value) for at, value in enumerate(lag)]
    shapes = lag_plot("k", points, [LagWindow(0, len(lag) * 100, "OK")])[1]
    paths = re.findall(r'<path d="([^"]*)"[^>]*style="[^"]*stroke: var\(--line\); stroke-width: 1.5', shapes)
    return [[(name, float(x), float(y)) for name, x, y in _STEP.findall(path)] for path in paths] or [[]]


def _titled(shapes: str) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return the tooltips of a plot, each with the corners of its shape."""
    found = re.findall(r"<g><title>([^<]*)</title>\s*<path d=\"([^\"]*)\"", shapes)
    return [(title, [(float(x), float(y)) for _, x, y in _STEP.findall(path)]) for title, path in found]


def test_bars_count_changes_of_owners() -> None:
    points = [LagPoint(START_MS + at * HOUR_MS, 1, 0, changes) for at, changes in enumerate((0, 1, 2, 4))]
    window = LagWindow(START_MS, START_MS + 4 * HOUR_MS, "OK")
    found = _titled(lag_plot("k", points, [window])[1])
    assert [title for title, _ in found] == [
        "11-10 10:00 1 change of owners",
        "11-10 11:00 2 changes of owners",
        "11-10 12:00 4 changes of owners",
    ]
    one, two, four = (max(y for _, y in corners) - min(y for _, y in corners) for _, corners in found)
    assert (two, four) == (pytest.approx(2 * one, rel=1e-4), pytest.approx(4 * one, rel=1e-4))
    # Those of snapshots that are too near to see are one bar.
    near = [LagPoint(START_MS + at, 1, 0, 1) for at in range(5)]
    assert [title for title, _ in _titled(lag_plot("k", near, [window])[1])] == ["11-10 09:00 5 changes of owners"]
    assert _titled(lag_plot("k", [LagPoint(START_MS, 1)], [window])[1]) == []


def test_verdicts_and_resets_are_behind_the_line() -> None:
    healths = ("OK", "STALL", "STALL", "UNKNOWN")
    windows = [
        LagWindow(START_MS + at * HOUR_MS, START_MS + (at + 1) * HOUR_MS, each) for at, each in enumerate(healths)
    ]
    points = [LagPoint(START_MS + at * HOUR_MS, 5, int(at == 1)) for at in range(4)]
    shapes = lag_plot("k", points, windows)[1]
    stall, unknown, reset = _titled(shapes)
    assert [title for title, _ in (stall, unknown, reset)] == [
        "STALL 11-10 10:00 to 11-10 12:00",
        "UNKNOWN 11-10 12:00 to 11-10 13:00",
        "11-10 10:00 offset set back: 1 queue",
    ]
    left, right = (find(x for x, _ in stall[1]) for find in (min, max))
    # Adjacent windows of one health are one band, which begins where the offset was set back.
    assert (right - left) / (max(x for x, _ in unknown[1]) - right) == pytest.approx(2, rel=1e-3)
    assert [x for x, _ in reset[1]] == [pytest.approx(left, abs=0.1)] * 2
    assert "var(--bad)" in shapes
    assert "var(--none)" in shapes


def test_a_map_is_darker_where_there_is_more() -> None:
    queues = [MessageQueue("T", "b", queue_id) for queue_id in range(2)]
    # Nothing was recorded between 200 and 300.
    windows = [LagWindow(at_ms, at_ms + 100, "OK") for at_ms in (0, 100, 300)]
    lags = {queues[0]: {0: (0, "OK"), 100: (9, "WARN"), 300: (99, "STALL")}, queues[1]: {100: (None, "UNKNOWN")}}
    (mq, cells), (_, others) = heat_rows(GroupSeries([], windows, lags), 100, 99)
    assert mq == queues[0]
    # log(10) is half of log(100).
    assert [cell and round(cell.shade, 2) for cell in cells] == [0.06, 0.53, None, 1.0]
    assert [cell and cell.lag for cell in cells] == [0, 9, None, 99]
    assert [cell and cell.title for cell in others] == [None, "T@b:1 01-01 00:00: unknown, UNKNOWN", None, None]
    assert cells[1] is not None
    assert cells[1].title == "T@b:0 01-01 00:00: 9, WARN"


def test_a_map_of_many_windows_has_their_maximum() -> None:
    mq, count = MessageQueue("T", "b", 0), 1_000
    windows = [LagWindow(at * 100, at * 100 + 100, "OK") for at in range(count)]
    lags: dict[int, tuple[int | None, str]] = {at * 100: (at % 500, "OK") for at in range(count)}
    lags[100] = (None, "UNKNOWN")
    ((_, cells),) = heat_rows(GroupSeries([], windows, {mq: lags}), 100, 499)
    assert len(cells) == 91
    assert max(cell.lag or 0 for cell in cells if cell is not None) == 499
    assert cells[0] is not None
    # One of its windows is unknown.
    assert cells[0].title == "T@b:0 01-01 00:00: at least 10, OK, UNKNOWN"


def test_a_map_has_text_for_each_cell() -> None:
    read = PageReader(render_page(_page(_row("G"))))
    assert {"G", "@b:1"} <= set(read.words)
    cells = read.all("i")
    assert [each.get("class") for each in cells] == [None, "blank", None]
    assert [each["title"] for each in cells] == [
        "G@b:1 11-10 09:00: 10, STALL",
        "G@b:1 11-10 10:00: unknown, STALL",
        "G@b:1 11-10 11:00: 30, STALL",
    ]
