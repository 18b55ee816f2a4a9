"""Counts the copies of a replay on its targets when all is sent: each must be there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.text.words import counted, listed

from .copies import read_copies

_NAMED_COUNT = 5


class SentCopies(Struct):
    """What was stored in a queue, by the answers of its broker: how many, from which offset on."""

    first_offset: int
    count: int = 0


async def check_copies(client: Client, ledger_id: str, sent: Mapping[MessageQueue, SentCopies]) -> list[Failure]:
    """Return what is wrong: copies that are missing, or there more than once, and queues that cannot be read."""

    async def read(mq: MessageQueue) -> Counter[str]:
        copies = await read_copies(client, ledger_id, mq, sent[mq].first_offset)
        # A consumer of a retry topic that fails again sends the copy back, with its mark.
        return Counter(copy.mark for copy in copies if not copy.reconsume_times)

    answers = await ask_all(sent, read)
    failures = [Failure(mq.broker_name, f"copies in {mq}", error) for mq, error in sorted(answers.failed.items())]
    total: Counter[str] = Counter()
    for mq, marks in sorted(answers.ok.items()):
        total += marks
        if (lost_count := sent[mq].count - len(marks)) > 0:
            sentence = f"{counted(lost_count, 'message')} that {mq.broker_name} has confirmed cannot be found there."
            failures.append(Failure(mq.broker_name, f"copies in {mq}", RmqctlError(sentence)))
    if doubled := sorted(mark.partition(" ")[2] for mark, count in total.items() if count > 1):
        named = listed(doubled[:_NAMED_COUNT]) + (", ..." if len(doubled) > _NAMED_COUNT else "")
        what = counted(len(doubled), "dead letter")
        failures.append(Failure(None, what, RmqctlError(f"Sent more than once (broker:queue:offset): {named}.")))
    return failures
