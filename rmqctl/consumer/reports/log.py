"""Problems in Python's log, for programs that give no report of their own."""

from __future__ import annotations

import logging

from .failures import ListenerError, listener_traceback
from .problems import Problem, Tell

LOG = logging.getLogger("rmqctl.consumer")


def log_problems(group: str) -> Tell:
    """Return a report that logs the problems of a group as warnings, with the traceback of the listener's error."""

    def log(problem: Problem) -> None:
        error = problem.error
        where = None
        if error is not None and not isinstance(error, ListenerError):
            where = (type(error), error, listener_traceback(error))
        LOG.warning("%s: %s", group, problem.sentence, exc_info=where)

    return log
