"""The Java side of a test: produce, run consumers of every kind, ask mqadmin; see java/Workbench.java."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import NamedTuple

from .jars import helper_classes, rocketmq_jars
from .process import JavaProcess

# So many messages a client may read twice that takes a queue up again by itself, as those on a busy machine now and
# then do: one answer to a pull.
READ_AGAIN_COUNT = 32
_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?:DEBUG|INFO|WARN|ERROR) .*\n?", re.MULTILINE)


class WorkbenchError(Exception):
    """The Java side answered with an exception."""


class LineDriver:
    """Drives one JVM line by line: a command out, an answer back."""

    def __init__(self, java: JavaProcess) -> None:
        self.java = java
        self._lock = threading.Lock()
        self._read_answer()

    def call(self, *words: str, **options: object) -> str:
        """Run one command in the JVM and return what it answered."""
        line = "\t".join([*words, *(f"{key}={value}" for key, value in options.items())])
        with self._lock:
            assert self.java.process.stdin is not None
            self.java.process.stdin.write(line.encode() + b"\n")
            self.java.process.stdin.flush()
            return self._read_answer()

    def _read_answer(self) -> str:
        assert self.java.process.stdout is not None
        line = self.java.process.stdout.readline().decode()
        if not line:
            raise WorkbenchError(f"the JVM ended:\n{self.java.log_tail()}")
        kind, _, text = line.rstrip("\n").partition("\t")
        text = text.replace("\\n", "\n").replace("\\\\", "\\")
        if kind != "OK":
            raise WorkbenchError(text)
        return text

    def wait_consumed(self, consumer_ids: str, count: int, timeout_s: float = 60) -> None:
        """Wait until the listeners of these consumers (blank-separated) have together finished count messages."""
        self._wait_for("consumed", consumer_ids, count, timeout_s)

    def _wait_for(self, counter: str, consumer_ids: str, count: int, timeout_s: float) -> None:
        give_up_at = time.monotonic() + timeout_s
        while (seen := sum(int(self.call(counter, id=name)) for name in consumer_ids.split())) < count:
            if time.monotonic() > give_up_at:
                raise WorkbenchError(f"{consumer_ids}: {counter} {seen} of {count} in {timeout_s} s")
            time.sleep(0.05)

    def stop(self, consumer_id: str) -> None:
        """Shut a push consumer down."""
        self.call("stop", id=consumer_id)

    def close(self) -> None:
        """End the JVM."""
        self.java.kill()


class Attempt(NamedTuple):
    """One message given to a listener; `age_ms` is how long ago it was sent first."""

    body: str
    reconsume_times: int
    queue: str
    age_ms: int


class ReadMessage(NamedTuple):
    """One message as a Java listener sees it; "null" for no tag and no keys."""

    message_id: str
    topic: str
    tags: str
    keys: str
    properties: dict[str, str]


class Workbench(LineDriver):
    """Drives one JVM with Java producers, consumers and mqadmin, line by line."""

    def __init__(
        self,
        version: str,
        home: Path,
        namesrv: str,
        *,
        jvm: tuple[str, ...] = (),
        credentials: tuple[str, str] | None = None,
        launcher: tuple[str, ...] = (),
    ) -> None:
        classpath = f"{helper_classes(version)}:{rocketmq_jars(version)}/*"
        java = JavaProcess(
            "workbench", home, classpath, "Workbench", namesrv, *(credentials or ()), jvm=("-Xmx768m", *jvm), pipe=True,
            launcher=launcher,
        )  # fmt: skip
        super().__init__(java)

    def mqadmin(self, *args: str) -> str:
        """Run an mqadmin command and return what it printed.

        RocketMQ's own log goes to the same stream; which of its lines come depends on when connections close.
        """
        return _LOG_LINE.sub("", self.call("mqadmin", *args))

    def sign_as(self, access_key: str, secret_key: str) -> None:
        """Have mqadmin, the producer and consumers started from now on sign as this account ("" for no signature)."""
        self.call("sign", ak=access_key, sk=secret_key)

    def produce(self, topic: str, count: int, **options: object) -> str:
        """Send count messages (size, tag, prefix, keys, queue="broker:id", batch, delay, timer, mode, rate).

        shards=N gives each one of N sharding keys, and sends it to the queue of this key. Returns the ids of the last
        message and its SendStatus unless that is SEND_OK, with tabs between.
        """
        return self.call("produce", topic=topic, count=count, **options)

    def consume(self, consumer_id: str, group: str, topic: str, **options: object) -> str:
        """Start a push consumer and return its id.

        Options are expr, sql, orderly, from, stuck, fail, max, broadcast, instance, pop, batch, threads, collect,
        also (a second topic), each (ms that a message takes), heartbeat (ms between heartbeats), timeout
        (consumeTimeout in min), once (retried messages are not stuck), spans (a file that gets the queue, the offset
        and the monotonic ns of the beginning and the end of each message).
        """
        # Java's client drops a heartbeat while another one is under way. Where that was to carry the version that a
        # change of its queues gave to its subscription, its pulls are refused (25) until the next: by default 30 s.
        options = {"heartbeat": 1000, **options}
        return self.call("consume", id=consumer_id, group=group, topic=topic, **options)

    def wait_started(self, consumer_ids: str, count: int, timeout_s: float = 60) -> None:
        """Wait until the listeners of these consumers have together been given count messages."""
        self._wait_for("started", consumer_ids, count, timeout_s)

    def persist(self, consumer_id: str) -> None:
        """Make a consumer send its offsets to the brokers now instead of within 5 s."""
        self.call("persist", id=consumer_id)

    def suspend(self, consumer_id: str) -> None:
        """Pause a consumer: it keeps its queues and pulls nothing."""
        self.call("suspend", id=consumer_id)

    def resume(self, consumer_id: str) -> None:
        """Let a paused consumer pull again."""
        self.call("resume", id=consumer_id)

    def release(self, consumer_id: str) -> None:
        """Let a listener that is stuck go on."""
        self.call("release", id=consumer_id)

    def bodies(self, consumer_id: str) -> list[str]:
        """Return the bodies that a consumer's listener has finished, of one started with collect."""
        return list(filter(None, self.call("bodies", id=consumer_id).split(",")))

    def attempts(self, consumer_id: str) -> list[Attempt]:
        """Return what a consumer's listener was given, of one started with collect."""
        rows = [line.split("\t") for line in self.call("attempts", id=consumer_id).splitlines()]
        return [Attempt(body, int(times), queue, int(age_ms)) for body, times, queue, age_ms in rows]

    def read(self, consumer_id: str) -> list[ReadMessage]:
        """Return the messages that a consumer's listener was given, as Java reads them; of one started with collect."""
        rows = [line.split("\t") for line in self.call("read", id=consumer_id).splitlines()]
        return [
            ReadMessage(*fields, dict(pair.split("=", 1) for pair in properties[1:-1].split(", ")))
            for *fields, properties in rows
        ]

    def queues(self, consumer_id: str, topic: str) -> set[str]:
        """Return which queues of a topic a push consumer holds, as broker:id."""
        return set(filter(None, self.call("queues", id=consumer_id, topic=topic).split(",")))

    def lite(self, consumer_id: str, group: str, topic: str, **options: object) -> None:
        """Start a lite pull consumer that subscribes, or with assign=1 takes all queues for itself."""
        self.call("lite", id=consumer_id, group=group, topic=topic, **options)

    def poll(self, consumer_id: str, count: int) -> list[str]:
        """Poll with a lite pull consumer for so many messages, 20 s at most; return their bodies."""
        return list(filter(None, self.call("poll", id=consumer_id, count=count).split(",")))

    def poll_on(self, consumer_id: str, **options: object) -> None:
        """Have a lite pull consumer poll by itself until it is stopped; attempts() and the like tell what it reads.

        The option is stuck.
        """
        self.call("poll-on", id=consumer_id, **options)

    def pull_on(self, consumer_id: str, group: str, topic: str, **options: object) -> None:
        """Start a DefaultMQPullConsumer that pulls until it is stopped; attempts() and the like tell what it reads.

        It goes where the broker's answers lead, or with keeps=1 only from one message to the next.
        """
        self.call("pull-on", id=consumer_id, group=group, topic=topic, **options)

    def pull_all(self, group: str, topic: str, **options: object) -> list[str]:
        """Read all that a group has not read with a DefaultMQPullConsumer, which commits; return the bodies."""
        return list(filter(None, self.call("pull-all", group=group, topic=topic, **options).split(",")))

    def transact(
        self, producer_id: str, group: str, topic: str, count: int, **options: object
    ) -> list[tuple[str, str]]:
        """Send count messages in transactions that end as local says (commit, rollback, unknown).

        A broker that asks gets check as its answer. Returns the unique key and the half message's offset id of each.
        Other options are prefix and key.
        """
        text = self.call("transact", id=producer_id, group=group, topic=topic, count=count, **options)
        rows = [line.split("\t") for line in text.splitlines()]
        return [(unique_key, offset_id) for unique_key, offset_id in rows]

    def checked(self, producer_id: str) -> list[tuple[str, int]]:
        """Return what brokers asked a producer of transactions about: each body, and its number of checks."""
        rows = [line.split("\t") for line in self.call("checked", id=producer_id).splitlines()]
        return [(body, int(times)) for body, times in rows]

    def reply(self, consumer_id: str, group: str, topic: str) -> None:
        """Start a consumer that answers each request with "re:" and the request's body."""
        self.call("reply", id=consumer_id, group=group, topic=topic)

    def request(self, producer_id: str, topic: str, count: int) -> list[str]:
        """Send requests one after the other; return the bodies of the replies."""
        return self.call("request", id=producer_id, topic=topic, count=count).split(",")
