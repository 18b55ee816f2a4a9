"""SQL92 filters over a message's properties, as brokers compile and evaluate them (rocketmq-filter's SelectorParser).

Peculiarities: a property is a text or missing, and is converted where it is compared with a number. Conditions are
true, false or unknown. Text after a complete expression is ignored. 0.0 is out of range, because the smallest double is
4.9E-324. `NOT a = 1` is `(NOT a) = 1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from .java_values import JavaValue, compare, parse_double, parse_whole

Properties = Mapping[str, str]
Value = JavaValue | None

_MAX_DEPTH = 100
# Longer expressions are compiled each time, so that the cache stays small.
_MAX_REMEMBERED_LENGTH = 4096
_SMALLEST_DOUBLE = 4.9e-324

_SKIPPED = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*")
_TOKEN = re.compile(
    r"""(?P<float>[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)
    |(?P<whole>0|[1-9][0-9]*l?)
    |(?P<text>'(?:''|[^'])*')
    |(?P<word>[a-z_$][a-z0-9_$]*)
    |(?P<sign><>|>=|<=|[=<>(),+-])""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_KEYWORDS = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"})
# Since 5.0; for 4.9 they are names.
_TEXT_KEYWORDS = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})
_END = "<end>"

_TESTS: dict[str, Callable[[int], bool]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class Sql92Filter:
    """A compiled expression."""

    def __init__(self, root: _Node) -> None:
        self._evaluate = root.evaluate

    def matches(self, properties: Properties) -> bool:
        """Tell whether a message matches; an unknown result, or a failed evaluation, does not."""
        try:
            return self._evaluate(properties) is True
        except (ValueError, RecursionError):
            return False


def parse(expression: str, *, has_text_operators: bool = True) -> Sql92Filter:
    """Compile an expression. Raises ValueError with the reason when it is invalid."""
    compile_ = _compile if len(expression) > _MAX_REMEMBERED_LENGTH else _compile_once
    return compile_(expression, has_text_operators)


def _compile(expression: str, has_text_operators: bool) -> Sql92Filter:
    parser = _Parser(expression, _KEYWORDS | _TEXT_KEYWORDS if has_text_operators else _KEYWORDS)
    try:
        return Sql92Filter(_as_condition(parser.any_of()))
    except RecursionError:
        raise ValueError("the expression is nested too deeply") from None


_compile_once = lru_cache(maxsize=256)(_compile)


class _Node(NamedTuple):
    """A part of an expression; whether it is allowed at a place is checked when it is inserted there.

    `is_constant` marks a literal with its `value`, `name` a property, `is_condition` a true, false or unknown part.
    """

    evaluate: Callable[[Properties], Value]
    is_condition: bool = False
    is_constant: bool = False
    value: Value = None
    name: str | None = None


class _Parser:
    """Reads only one token ahead: the text after the end of the expression may be anything."""

    def __init__(self, text: str, keywords: frozenset[str]) -> None:
        self._text = text
        self._keywords = keywords
        self._at = 0
        self._token: tuple[str, str] | None = None
        self._depth = 0

    def any_of(self) -> _Node:
        """Parse conditions joined by OR."""
        parts = [self._all_of()]
        while self._take("OR"):
            parts.append(self._all_of())
        return parts[0] if len(parts) == 1 else _junction(parts, decisive=True)

    def _all_of(self) -> _Node:
        parts = [self._equality()]
        while self._take("AND"):
            parts.append(self._equality())
        return parts[0] if len(parts) == 1 else _junction(parts, decisive=False)

    def _equality(self) -> _Node:
        left = self._comparison()
        while True:
            if self._take("="):
                left = _equal(left, self._comparison())
            elif self._take("<>"):
                left = _negation(_equal(left, self._comparison()))
            elif self._take("IS"):
                is_negated = self._take("NOT")
                self._need("NULL")
                left = _negation(_is_null(left)) if is_negated else _is_null(left)
            else:
                return left

    def _comparison(self) -> _Node:
        left = self._unary()
        while True:
            kind, text = self._peek()
            if kind == "sign" and text in _TESTS:
                self._next()
                left = _ordered(left, self._unary(), _TESTS[text])
                continue
            is_negated = self._take("NOT")
            word = self._peek()[0]
            if word in _TEXT_TESTS:
                self._next()
                left = _text_test(left, self._need_text(), _TEXT_TESTS[word], is_negated=is_negated)
            elif self._take("BETWEEN"):
                low = self._unary()
                self._need("AND")
                left = _between(left, low, self._unary(), is_negated=is_negated)
            elif self._take("IN"):
                left = _one_of(left, self._texts(), is_negated=is_negated)
            elif is_negated:
                raise self._unexpected()
            else:
                return left

    def _unary(self) -> _Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("the expression is nested too deeply")
        if self._take("+"):
            node = self._unary()
        elif self._take("-"):
            node = _minus(self._unary())
        elif self._take("NOT"):
            node = _negation(_as_condition(self._unary()))
        else:
            node = self._primary()
        self._depth -= 1
        return node

    def _primary(self) -> _Node:
        kind, text = self._peek()
        if kind == "text":
            return _constant(self._need_text())
        if self._take("("):
            node = self.any_of()
            self._need(")")
            return node
        if kind not in ("whole", "float", "word", "TRUE", "FALSE", "NULL"):
            raise self._unexpected()
        self._next()
        if kind == "whole":
            return _constant(parse_whole(text.rstrip("lL")))
        if kind == "float":
            return _constant(_literal_double(text))
        if kind == "word":
            return _Node(lambda properties: properties.get(text), name=text)
        return _constant({"TRUE": True, "FALSE": False, "NULL": None}[kind])

    def _texts(self) -> list[str]:
        self._need("(")
        texts = [self._need_text()]
        while self._take(","):
            texts.append(self._need_text())
        self._need(")")
        return texts

    def _peek(self) -> tuple[str, str]:
        """Return the next token's kind and text; keywords, and signs other than comparisons, are their own kind."""
        if self._token is None:
            self._token = self._read()
        return self._token

    def _read(self) -> tuple[str, str]:
        skipped = _SKIPPED.match(self._text, self._at)
        self._at = skipped.end() if skipped else self._at
        if self._at == len(self._text):
            return _END, ""
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise ValueError(f"unexpected {self._text[self._at]!r} at character {self._at + 1}")
        self._at = match.end()
        kind, text = str(match.lastgroup), match[0]
        if kind == "word" and text.upper() in self._keywords:
            return text.upper(), text
        return (text, text) if kind == "sign" and text not in _TESTS else (kind, text)

    def _next(self) -> str:
        text = self._peek()[1]
        self._token = None
        return text

    def _take(self, kind: str) -> bool:
        if self._peek()[0] != kind:
            return False
        self._token = None
        return True

    def _need(self, kind: str) -> None:
        if not self._take(kind):
            raise self._unexpected(kind)

    def _need_text(self) -> str:
        if self._peek()[0] != "text":
            raise self._unexpected("a text in single quotes")
        return self._next()[1:-1].replace("''", "'")

    def _unexpected(self, wanted: str = "") -> ValueError:
        kind, text = self._peek()
        found = "end" if kind == _END else repr(text)
        return ValueError(f"unexpected {found}, expected {wanted}" if wanted else f"unexpected {found}")


def _constant(value: Value) -> _Node:
    is_condition = value is None or isinstance(value, bool)
    return _Node(lambda _: value, is_condition=is_condition, is_constant=True, value=value)


def _literal_double(text: str) -> float:
    value = parse_double(text)
    if not _SMALLEST_DOUBLE <= value < float("inf"):
        raise ValueError(f"{text} is out of range")
    return value


def _as_condition(node: _Node) -> _Node:
    """Return a condition; a property counts as false, because it is a text, or as unknown when it is missing."""
    if node.is_condition:
        return node
    if node.name is None:
        raise ValueError("the expression is not a condition")
    return _Node(lambda properties: None if node.evaluate(properties) is None else False, is_condition=True)


def _junction(parts: list[_Node], *, decisive: bool) -> _Node:
    """Return the OR (decided by true) or AND (by false) of conditions, evaluated only until it is decided."""
    evaluates = [_as_condition(part).evaluate for part in parts]

    def evaluate(properties: Properties) -> Value:
        result: Value = not decisive
        for each in evaluates:
            value = each(properties)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return _Node(evaluate, is_condition=True)


def _negation(node: _Node) -> _Node:
    def evaluate(properties: Properties) -> Value:
        value = node.evaluate(properties)
        return None if value is None else value is False

    return _Node(evaluate, is_condition=True)


def _minus(node: _Node) -> _Node:
    def evaluate(properties: Properties) -> Value:
        value = node.evaluate(properties)
        return None if value is None or isinstance(value, bool | str) else -value

    return _Node(evaluate)


def _equal(left: _Node, right: _Node) -> _Node:
    if any(node.is_constant and node.value is None for node in (left, right)):
        raise ValueError("NULL cannot be compared: use IS NULL")
    is_odd = left.is_constant and right.is_constant and left.is_condition and not right.is_condition
    if is_odd:
        raise ValueError("a truth value cannot be compared with a number or text")
    return _compared_equal(left, right)


def _is_null(node: _Node) -> _Node:
    return _compared_equal(node, _constant(None))


def _compared_equal(left: _Node, right: _Node) -> _Node:
    def evaluate(properties: Properties) -> Value:
        one, other = left.evaluate(properties), right.evaluate(properties)
        if one is None or other is None:
            # Unknown on the right is unequal, on the left unknown.
            return True if one is other else None if one is None else False
        return compare(one, other) == 0

    return _Node(evaluate, is_condition=True)


def _ordered(left: _Node, right: _Node, test: Callable[[int], bool]) -> _Node:
    for node in (left, right):
        if node.is_condition or isinstance(node.value, str):
            raise ValueError("only numbers and properties can be ordered")

    def evaluate(properties: Properties) -> Value:
        one, other = left.evaluate(properties), right.evaluate(properties)
        if one is None or other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            one, other = parse_double(one), parse_double(other)
        order = compare(one, other)
        return test(-1 if order is None else order)

    return _Node(evaluate, is_condition=True)


def _between(value: _Node, low: _Node, high: _Node, *, is_negated: bool) -> _Node:
    if is_negated:
        outside = [_ordered(value, low, _TESTS["<"]), _ordered(value, high, _TESTS[">"])]
        return _junction(outside, decisive=True)
    inside = [_ordered(value, low, _TESTS[">="]), _ordered(value, high, _TESTS["<="])]
    if low.is_constant and high.is_constant and low.value is not None and high.value is not None:
        order = compare(high.value, low.value)
        if order is not None and order < 0:
            raise ValueError("BETWEEN needs the smaller value first")
    return _junction(inside, decisive=False)


def _one_of(node: _Node, texts: list[str], *, is_negated: bool) -> _Node:
    if node.name is None:
        raise ValueError("IN needs a property on its left")
    wanted = frozenset(texts)

    def evaluate(properties: Properties) -> Value:
        value = node.evaluate(properties)
        return None if value is None else (value in wanted) is not is_negated

    return _Node(evaluate, is_condition=True)


def _text_test(node: _Node, wanted: str, test: Callable[[str, str], bool], *, is_negated: bool) -> _Node:
    """Return a test that is false, negated or not, for a value that is not a text and for an empty search text."""

    def evaluate(properties: Properties) -> Value:
        if not wanted:
            return False
        value = node.evaluate(properties)
        return isinstance(value, str) and test(value, wanted) is not is_negated

    return _Node(evaluate, is_condition=True)
