"""A JMESPath condition on JSON bodies (--body-match)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rmqctl.cli.output.body import BodyStyle
from rmqctl.errors import RmqctlError, UsageError

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_reading import Letter


class BodyMatch:
    """Checks bodies against a JMESPath expression. `unfit_count` counts those that it cannot be evaluated on.

    These are not JSON, or not of the type that the expression expects. If a codec reads the bodies, the expression is
    evaluated on the codec's value. Raises UsageError for an invalid expression.
    """

    def __init__(self, expression: str, style: BodyStyle) -> None:
        import jmespath
        from jmespath.exceptions import JMESPathError

        self.unfit_count = 0
        self._style = style
        self._error = JMESPathError
        try:
            self._search = jmespath.compile(expression).search
        except JMESPathError as error:
            said = " ".join(str(error).split()).removeprefix("Invalid jmespath expression: ").rstrip(".^")
            sentence = f"Invalid JMESPath expression in --body-match: {said}."
            raise UsageError(sentence, hint="See jmespath.org for the syntax.") from None

    def accepts(self, letter: Letter) -> bool:
        """Return whether the expression matches a body; in JMESPath null, false and empty values count as false."""
        try:
            found = self._search(self._value(letter))
        except (ValueError, RecursionError, RmqctlError, self._error):
            self.unfit_count += 1
            return False
        return found not in (None, "", [], {}) and found is not False

    def _value(self, letter: Letter) -> Any:
        if self._style.codec is None or self._style.codec_name is None:
            return msgspec.json.decode(letter.body)
        from rmqctl.plugin.loader import run_codec

        return run_codec(
            self._style.codec_name, self._style.codec, letter.body, letter.properties, letter.found.mq.topic
        )
