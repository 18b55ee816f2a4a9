from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.html_report import Page, render_page
from rmqctl.pipeline.lag_report import count_health, group_series, skew
from rmqctl.pipeline.svg_plots import bar_plot, heat_plot, line_plot
from tests.page.reader import PageReader

HOUR_MS = 3_600_000
START_MS = 1_794_301_200_000  # 2026-11-10T09:00:00Z
EVIL = '</title><script>alert("1")</script>&\'$x'


def _row(group: str, health: str = "STALL", **other: Any) -> dict[str, Any]:
    return {
        "cluster": "c1", "group": group, "health": health, "queueCount": 2, "counts": {}, "lag": 1234,
        "lagAtLeast": 1234, "unknownCount": 0, "lagAtStart": 7, "slopeMsgsPerS": -0.5,
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


def _page(*rows: dict[str, Any], lag: tuple[int | None, ...] = (10, None, 30, 40)) -> Page:
    facts = {
        "windowMs": HOUR_MS, "groupCount": len(rows), "queueCount": 2, "snapshotCount": 4,
        "windowEndTimestamp": START_MS, "sinceTimestamp": START_MS - HOUR_MS, "newestSnapshotTimestamp": START_MS,
        "groupCounts": count_health(rows),
    }  # fmt: skip
    starts_ms = [START_MS + at * HOUR_MS for at in range(len(lag))]
    series = {
        (row["cluster"], row["group"]): {
            "startsMs": starts_ms,
            "endsMs": [at_ms + HOUR_MS for at_ms in starts_ms],
            "lag": lag,
            "ownerChanges": [0, 2, 0, 1],
            "queues": {MessageQueue(row["group"], "b", 1): [(value, "STALL") for value in lag[:3]] + [None]},
        }
        for row in rows
    }
    return Page(facts, rows, len(rows), series)


def test_a_page_is_whole_and_needs_nothing_else() -> None:
    text = render_page(_page(_row("G"), _row("H", "OK")))
    read = PageReader(text)
    assert read.open == []
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in read.tags}
    for _, attributes in read.tags:
        assert not {"src", "href", "srcset", "style", "onload", "onclick"} & attributes.keys()
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
    assert len(plots) == 6
    for plot in plots:
        assert plot["role"] == "img"
        assert set((plot["aria-labelledby"] or "").split()) <= set(ids)
    assert "From 10 to 40, maximum 40 at 11-10 13:00 UTC. 1 of 4 are unknown." in "".join(read.words)
    assert len(read.all("table")) == len(read.all("caption")) == 5
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
    assert "not at this pace" in words
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


def test_there_are_more_than_a_table_shows() -> None:
    page = _page(*(_row(f"G{number}") for number in range(120)))._replace(group_count=500)
    words = "".join(PageReader(render_page(page)).words)
    assert "The worst 120 of 500 groups, worst first" in words
    assert "The first 100 of 120 queues." in words


# Plots

_TIMES = ([0, 100, 200, 300], [100, 200, 300, 400])


def test_a_line_has_gaps_where_nothing_is_known() -> None:
    plot = line_plot("k", "Lag", *_TIMES, [0, 50, None, 100])
    (points,) = re.findall(r'points="([^"]*)"', plot)
    # From 64 to 632: times 100 and 200 of 400; 0 is at the bottom, 158, half of the most in the middle.
    assert points == "206.0,158.0 348.0,83.0"
    assert re.findall(r'<circle class="dot" cx="([\d.]+)" cy="([\d.]+)"', plot) == [("632.0", "8.0")]
    assert line_plot("k", "Lag", *_TIMES, [None] * 4).count("All values are unknown.") == 1
    assert "<polyline" in line_plot("k", "Lag", *_TIMES, [0, 0, 0, 0])


def test_bars_stand_on_the_ground() -> None:
    bars = re.findall(
        r'class="bar"[^>]* y="([\d.]+)"[^>]* height="([\d.]+)"', bar_plot("k", "Changes", *_TIMES, [0, 1, 2, 4])
    )
    assert [float(y) + float(height) for y, height in bars] == [68.0] * 4
    assert [float(height) for _, height in bars] == [0, 15, 30, 60]


def test_a_map_is_darker_where_there_is_more() -> None:
    plot = heat_plot(
        "k", "Lag", *_TIMES, {"T@b:0": [(0, "OK"), (9, "WARN"), (None, "UNKNOWN"), (99, "STALL")], "T@b:1": [None] * 4}
    )
    shades = [float(shade) for shade in re.findall(r'fill-opacity="([\d.]+)"', plot)]
    # log(10) is half of log(100).
    assert shades == [0.06, 0.53, 1.0]
    assert plot.count('class="blank"') == 1
    assert plot.count("<rect") == 4
    assert "T@b:0 01-01 00:00: 9, WARN" in plot
    assert "1. T@b:0; 2. T@b:1" in plot


# What is drawn


def test_series_are_by_window() -> None:
    def row(hour: int, queue_id: int, lag: int | None, changes: int = 0) -> dict[str, Any]:
        start_ms = START_MS + hour * HOUR_MS
        return {
            "window_start_ms": start_ms, "window_end_ms": start_ms + HOUR_MS, "topic": "T", "broker_name": "b",
            "queue_id": queue_id, "lag_last": lag, "lag_max": lag, "status": "OK", "owner_change_count": changes,
        }  # fmt: skip

    series = group_series([row(1, 0, 5, 1), row(0, 0, 3), row(0, 1, 4), row(2, 0, None), row(2, 1, 8, 2)])
    assert series["startsMs"] == [START_MS, START_MS + HOUR_MS, START_MS + 2 * HOUR_MS]
    assert (series["lag"], series["ownerChanges"]) == ([7, 5, None], [0, 1, 2])
    assert series["queues"] == {
        MessageQueue("T", "b", 0): [(3, "OK"), (5, "OK"), (None, "OK")],
        MessageQueue("T", "b", 1): [(4, "OK"), None, (8, "OK")],
    }


@pytest.mark.parametrize(
    ("values", "wanted"),
    [([1, 1, 1], 1.0), ([6, 0, 0], 3.0), ([3, 1], 1.5), ([5], 1.0), ([0, 0], None), ([], None), ([3, None], None)],
)
def test_skew_is_the_most_over_the_mean(values: list[float | None], wanted: float | None) -> None:
    assert skew(values) == wanted
