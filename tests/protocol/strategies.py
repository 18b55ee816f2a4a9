"""What hypothesis draws for more than one test module."""

from __future__ import annotations

from hypothesis import strategies as st

from rmqctl.protocol.command import Command, HeaderEncoding
from rmqctl.protocol.versions import Language

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
LANGUAGES = st.sampled_from(list(Language.__members__))

# Whatever looks like structure, or is special to fastjson, to its references or to the reader.
HOSTILE_TEXT = st.one_of(
    st.text(alphabet='{}[]:,"\\ 01-$.@\x00\x01\x02\n\té\u2028😀', max_size=12),
    st.sampled_from(["{", "}:", ",1:", '{"a":1}:', "{0:4}", '"', "\\", '\\"', "\\\\", "\x010", "\x02", "$ref", "null"]),
)


def commands(encoding: HeaderEncoding) -> st.SearchStrategy[Command]:
    """Draw commands that the encoding can hold and gives back as they were."""
    is_json = encoding is HeaderEncoding.JSON
    return st.builds(
        Command,
        code=INT32 if is_json else INT16,
        ext_fields=st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4),
        body=st.binary(max_size=40),
        opaque=INT32,
        flag=INT32,
        # The binary header has one spelling for no remark and an empty one.
        remark=st.none() | st.text(min_size=0 if is_json else 1, max_size=20),
        language=LANGUAGES,
        version=INT32 if is_json else INT16,
        encoding=st.just(encoding),
    )


ANY_COMMAND = st.sampled_from(HeaderEncoding).flatmap(commands)

JSON_LEAVES = st.one_of(
    st.none(), st.booleans(), INT64, st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8), HOSTILE_TEXT
)
# A map whose only key is "$ref" is a reference by definition.
JSON_KEYS = (st.text(max_size=8) | HOSTILE_TEXT).filter(lambda key: key != "$ref")
JSON_VALUES = st.recursive(
    JSON_LEAVES,
    lambda values: st.lists(values, max_size=4) | st.dictionaries(JSON_KEYS, values, max_size=4),
    max_leaves=12,
)
