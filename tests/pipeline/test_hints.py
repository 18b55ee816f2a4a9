from __future__ import annotations

import pytest

from rmqctl.errors import UnreachableError, UsageError
from rmqctl.pipeline.source.hints import in_flags, in_options, with_hints


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("Did you mean Orders?", "Did you mean Orders?"),
        ("Give the command more time with --timeout.", "Give the command more time with rocketmq.timeout."),
        ("Give --credentials FILE, or a context's.", "Give rocketmq.credentials FILE."),
        ("Set enablePropertyFilter=true, or use --tag, --property or --contains.", "Set enablePropertyFilter=true."),
        ("Allow reads with rmqctl topic update X --perm rw.", "Allow reads with rmqctl topic update X --perm rw."),
        ("Use another --contains.", None),
    ],
)
def test_hints_name_options_of_data_frames(hint: str, shown: str | None) -> None:
    with pytest.raises(UnreachableError) as raised, with_hints():
        raise UnreachableError("h:1", "refused", hint=hint)
    assert getattr(raised.value, "__notes__", []) == ([] if shown is None else [shown])


def test_the_command_line_gets_its_own_names_again() -> None:
    hint = "Give the command more time with --timeout, or check --tls-ca of rocketmq.example.com."
    assert in_flags(in_options(hint) or "") == hint


def test_sentences_name_options_of_data_frames() -> None:
    with pytest.raises(UsageError, match=r"^Invalid sql expression 'a'"), with_hints():
        raise UsageError("Invalid --sql expression 'a'.")
