from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.compression import MAX_BODY_BYTES, decompress


def zstd_stream(data: bytes) -> bytes:
    """Compress as Java's ZstdOutputStream does: the frame doesn't announce its size."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(data) + compressor.flush()


def lz4_stream(data: bytes) -> bytes:
    """Compress as Java's LZ4FrameOutputStream does: no size, blocks of their own."""
    with lz4.frame.LZ4FrameCompressor(block_linked=False) as compressor:
        return compressor.begin() + compressor.compress(data) + compressor.flush()


def zstd_with_checksum(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def lz4_with_size_and_checksum(data: bytes) -> bytes:
    return lz4.frame.compress(data, store_size=True, content_checksum=True)


COMPRESSORS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (0x000, zlib.compress),
    (0x300, zlib.compress),
    (0x100, lz4.frame.compress),
    (0x100, lz4_stream),
    (0x100, lz4_with_size_and_checksum),
    (0x200, zstandard.ZstdCompressor().compress),
    (0x200, zstd_stream),
    (0x200, zstd_with_checksum),
]
every_compressor = pytest.mark.parametrize(
    ("kind", "compress"), COMPRESSORS, ids=lambda value: getattr(value, "__name__", str(value))
)


@every_compressor
@settings(max_examples=40, deadline=None)
@given(body=st.binary(max_size=2000) | st.integers(1, 300_000).map(lambda size: b"ab" * size))
def test_bodies_come_back(kind: int, compress: Callable[[bytes], bytes], body: bytes) -> None:
    assert decompress(0x1 | kind, compress(body)) == body


@every_compressor
def test_bodies_that_hardly_shrink_come_back(kind: int, compress: Callable[[bytes], bytes]) -> None:
    body = random.Random(5).randbytes(300_000)
    assert decompress(kind, compress(body)) == body


@every_compressor
def test_a_cut_body_is_refused_wherever_it_is_cut(kind: int, compress: Callable[[bytes], bytes]) -> None:
    whole = compress(random.Random(5).randbytes(60) * 20)
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            decompress(kind, whole[:length])


@every_compressor
def test_the_limit_is_the_largest_body(kind: int, compress: Callable[[bytes], bytes]) -> None:
    assert len(decompress(kind, compress(bytes(5000)), max_bytes=5000)) == 5000
    with pytest.raises(RemoteProtocolError, match="larger than 5000 bytes"):
        decompress(kind, compress(bytes(5001)), max_bytes=5000)


@every_compressor
def test_a_bomb_is_refused_within_bounds(kind: int, compress: Callable[[bytes], bytes]) -> None:
    bomb = compress(bytes(2 * MAX_BODY_BYTES))
    assert len(bomb) < MAX_BODY_BYTES // 50
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="larger than 67108864 bytes"):
            decompress(0x1 | kind, bomb)
        # The decompressor's own copy, and the one that it hands out.
        assert tracemalloc.get_traced_memory()[1] < 2.5 * MAX_BODY_BYTES
    finally:
        tracemalloc.stop()


def test_an_announced_size_is_not_believed() -> None:
    # Frames of a few bytes that announce 2 GiB.
    zstd = bytes.fromhex("28b52ffd") + bytes([0b1010_0000]) + (2**31).to_bytes(4, "little")
    lz4_head = bytes.fromhex("04224d18") + bytes([0x68, 0x40]) + (2**31).to_bytes(8, "little")
    tracemalloc.start()
    try:
        for kind, data in ((0x200, zstd), (0x100, lz4_head)):
            for tail in (b"", b"\x00" * 20):
                with pytest.raises(RemoteProtocolError):
                    decompress(kind, data + tail)
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_BODY_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [0x400, 0x500, 0x600, 0x700])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"type {kind >> 8}"):
        decompress(kind, zlib.compress(b"x"))


def test_only_the_kind_s_bits_count() -> None:
    assert decompress(-1 & ~0x700 | 0x300, zlib.compress(b"x")) == b"x"


@every_compressor
def test_another_kind_s_body_is_refused(kind: int, compress: Callable[[bytes], bytes]) -> None:
    for other in {0x100, 0x200, 0x300} - {kind or 0x300}:
        with pytest.raises(RemoteProtocolError):
            decompress(other, compress(b"x" * 100))


@every_compressor
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_changed_body_is_read_or_refused(kind: int, compress: Callable[[bytes], bytes], data: st.DataObject) -> None:
    body = bytearray(compress(bytes(range(40)) * 3))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decompress(kind, bytes(body))
    except RemoteProtocolError:
        return


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([0x000, 0x100, 0x200, 0x300]), st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(kind: int, data: bytes) -> None:
    for head in (b"", bytes.fromhex("04224d18"), bytes.fromhex("28b52ffd"), b"\x78\x9c"):
        try:
            decompress(kind, head + data)
        except RemoteProtocolError:
            continue
