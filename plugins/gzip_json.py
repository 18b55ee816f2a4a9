"""A plugin for rmqctl: the codec `gzip-json` decodes bodies of gzipped JSON, as many HTTP gateways send them.

rmqctl message get --topic orders --key o-17 --plugin gzip_json.py --codec gzip-json
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from rmqctl.plugin.hookspecs import BodyCodec, hookimpl

# A few KiB can decompress to gigabytes.
MAX_BYTES = 64 * 1024 * 1024


def decode(body: bytes, properties: Mapping[str, str], topic: str) -> Any:  # noqa: ARG001
    """Return the JSON value in a gzipped body. Raises ValueError."""
    data, left = b"", body
    # A gzip body can consist of several members, one after another.
    while True:
        inflater = zlib.decompressobj(wbits=31)
        try:
            data += inflater.decompress(left, MAX_BYTES + 1 - len(data))
        except zlib.error as error:
            raise ValueError(f"the body is not gzip ({error})") from None
        if len(data) > MAX_BYTES:
            raise ValueError(f"the body is larger than {MAX_BYTES} bytes when decompressed")
        if not inflater.eof:
            raise ValueError("the gzipped body is truncated")
        left = inflater.unused_data
        if not left:
            return json.loads(data)


@hookimpl
def rmqctl_body_codecs() -> Mapping[str, BodyCodec]:
    """See rmqctl.plugin.hookspecs."""
    return {"gzip-json": decode}
