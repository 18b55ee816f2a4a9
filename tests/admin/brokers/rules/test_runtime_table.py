from __future__ import annotations

import pytest

from rmqctl.admin.brokers.rules.runtime_table import DelayLevel, PoolState, Rates, read_runtime


def test_the_table_of_a_5x_broker() -> None:
    runtime = read_runtime(
        {
            "brokerVersionDesc": "V5_4_0",
            "bootTimestamp": "1795255263119",
            "runtime": "[ 1 days, 2 hours, 3 minutes, 29 seconds ]",
            "brokerActive": "true",
            "putTps": "3.5 0.5331200852992136 0.25",
            "getTransferredTps": "0.0 0.6664112090365361 ",
            "msgPutTotalTodayNow": "30",
            "msgPutTotalTodayMorning": "10",
            "msgPutTotalYesterdayMorning": "4",
            "msgGetTotalTodayNow": "44",
            "msgGetTotalTodayMorning": "4",
            "msgGetTotalYesterdayMorning": "3",
            "commitLogDiskRatio": "0.15",
            "consumeQueueDiskRatio": "0.16",
            "commitLogMinOffset": "0",
            "commitLogMaxOffset": "8168",
            "earliestMessageTimeStamp": "1795255320898",
            "dispatchBehindBytes": "12",
            "pageCacheLockTimeMills": "3",
            "remainHowManyDataToFlush": "0 B",
            "timerReadBehind": "2",
            "timerOffsetBehind": "5",
            "timerCongestNum": "7",
            "timerEnqueueTps": "0.5",
            "timerDequeueTps": "1.5",
        }
    )
    assert (runtime.version, runtime.boot_at_ms, runtime.is_active) == ("V5_4_0", 1795255263119, True)
    assert runtime.uptime_ms == ((26 * 60 + 3) * 60 + 29) * 1000
    assert runtime.put_tps == Rates(3.5, 0.5331200852992136, 0.25)
    assert runtime.get_tps == Rates(0.0, 0.6664112090365361, None)
    assert (runtime.put_today_count, runtime.put_yesterday_count) == (20, 6)
    assert (runtime.get_today_count, runtime.get_yesterday_count) == (40, 1)
    assert (runtime.commit_log_disk_ratio, runtime.consume_queue_disk_ratio) == (0.15, 0.16)
    assert (runtime.commit_log_min_offset, runtime.commit_log_max_offset) == (0, 8168)
    assert (runtime.dispatch_behind_bytes, runtime.page_cache_lock_ms, runtime.flush_behind) == (12, 3, "0 B")
    assert (runtime.timer_read_behind_s, runtime.timer_offset_behind, runtime.timer_congest_count) == (2, 5, 7)
    assert (runtime.timer_enqueue_tps, runtime.timer_dequeue_tps) == (0.5, 1.5)


def test_what_an_empty_49_broker_cannot_tell_is_unknown() -> None:
    # As 4.9.7 writes it in its first seconds, without a message.
    runtime = read_runtime(
        {
            "putTps": "  ",
            "getTransferedTps": "  ",
            "commitLogMinOffset": "-1",
            "commitLogMaxOffset": "0",
            "earliestMessageTimeStamp": "-1",
            "runtime": "soon",
        }
    )
    assert (runtime.put_tps, runtime.get_tps) == (Rates(), Rates())
    assert (runtime.commit_log_min_offset, runtime.commit_log_max_offset) == (None, 0)
    assert (runtime.earliest_message_at_ms, runtime.uptime_ms, runtime.timer_congest_count) == (None, None, None)
    assert (runtime.pools, runtime.delay_levels) == ((), ())


def test_the_older_spelling_of_a_rate() -> None:
    assert read_runtime({"getTransferedTps": "7.0 1.0 1.0"}).get_tps == Rates(7.0, 1.0, 1.0)


def test_delay_levels_have_their_backlog_and_their_delay() -> None:
    table = {
        "scheduleMessageOffset_12": "5,5",
        "scheduleMessageOffset_2": "3,10",
        "scheduleMessageOffset_40": "0,1",
        "scheduleMessageOffset_x": "0,1",
        "scheduleMessageOffset_4": "1",
        "scheduleMessageOffset_5": "-1,2",
    }
    levels = read_runtime(table, message_delay_level="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m").delay_levels
    assert levels == (DelayLevel(2, "5s", 3, 10), DelayLevel(12, "8m", 5, 5), DelayLevel(40, None, 0, 1))
    assert [level.backlog for level in levels] == [7, 0, 1]
    # A slave can be a moment behind in one of the two numbers.
    assert DelayLevel(1, None, 9, 8).backlog == 0


def test_thread_pools() -> None:
    table = {
        "sendThreadPoolQueueSize": "4",
        "sendThreadPoolQueueHeadWaitTimeMills": "250",
        "sendThreadPoolQueueCapacity": "10000",
        "pullThreadPoolQueueSize": "0",
        "EndTransactionQueueSize": "1",
        "EndTransactionThreadPoolQueueCapacity": "100000",
    }
    assert read_runtime(table).pools == (
        PoolState("send", 4, 250, 10000),
        PoolState("pull", 0, None, None),
        PoolState("endTransaction", 1, None, 100000),
    )
    assert [read_runtime(table).pool(name).queue_size for name in ("send", "ack")] == [4, None]


@pytest.mark.parametrize("text", ["", " ", "x", "-1", "1.5", "9" * 19, "٣"])
def test_a_count_that_is_none_is_unknown(text: str) -> None:
    assert read_runtime({"dispatchBehindBytes": text}).dispatch_behind_bytes is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(("putTps", text) for text in ("", " ", "NaN 0 0", "Infinity", "-inf", "x")),
        *(("commitLogDiskRatio", text) for text in ("", "-1.0", "NaN", "1.5", "x")),
        *(("earliestMessageTimeStamp", text) for text in ("", "-1", "0", "x", "9" * 5_000)),
    ],
)
def test_a_value_in_an_unknown_format_is_as_if_it_were_missing(key: str, text: str) -> None:
    found = read_runtime({key: text})
    assert (found.put_tps.last_10s, found.commit_log_disk_ratio, found.earliest_message_at_ms) == (None, None, None)
