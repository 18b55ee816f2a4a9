"""Reports about pulls: what fails, what works again, and unusual answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.queue import MessageQueue

from .problems import Problems

if TYPE_CHECKING:
    from rmqctl.consumer.pull_loop import PullBatch


def report_pulled(problems: Problems, mq: MessageQueue, pulled: PullBatch) -> bool:
    """Report what is unusual about an answer; return whether the broker moved the queue back."""
    if problems.has_open:
        name, place = mq.broker_name, _place(mq)
        problems.works(ConsumerWarning.PULL, name, f"Pulling from {name} works again")
        problems.works(ConsumerWarning.PULL, place, f"Pulling {place} works again")
    for fault in pulled.faults:
        problems(ConsumerWarning.UNREADABLE, f"{mq}:{fault}")
    firsts = (message.queue_offset for message in pulled.messages[:1])
    back_to = min(pulled.next_offset, *firsts, pulled.asked_offset)
    if back_to < pulled.asked_offset:
        sentence = f"{mq}: the broker moved back from {pulled.asked_offset} to {back_to}."
        problems(ConsumerWarning.OFFSET, sentence)
    return back_to < pulled.asked_offset


def report_pull_failed(problems: Problems, mq: MessageQueue, error: RmqctlError) -> None:
    """Report that a queue, or its broker, cannot be pulled."""
    if isinstance(error, UnreachableError):
        problems(ConsumerWarning.PULL, f"Cannot pull from {mq.broker_name}: {error.sentence}", mq.broker_name)
    else:
        problems(ConsumerWarning.PULL, f"Cannot pull {mq}: {error.sentence}", _place(mq))


def _place(mq: MessageQueue) -> str:
    """Return the place of problems that a topic has at a broker."""
    return f"{mq.topic}@{mq.broker_name}"
