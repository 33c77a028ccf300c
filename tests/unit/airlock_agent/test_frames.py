import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlock_agent.frames import PREFIX, Decoder, FrameError, encode

headers = st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=5)


@given(st.lists(st.tuples(headers, st.binary(max_size=300))), st.integers(1, 64))
def test_frames_survive_any_cut_of_the_stream(frames, cut):
    stream = b"".join(encode(header, body) for header, body in frames)
    decoder = Decoder(1 << 16, 1 << 16)
    pieces = [stream[start : start + cut] for start in range(0, len(stream), cut)]
    assert [tuple(frame) for piece in pieces for frame in decoder.feed(piece)] == frames


def test_a_frame_over_the_limit_is_refused_before_its_body_comes():
    with pytest.raises(FrameError):
        list(Decoder(10, 100).feed(PREFIX.pack(2, 101)))
    with pytest.raises(FrameError):
        list(Decoder(10, 100).feed(PREFIX.pack(11, 0)))


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff", b"1", b"[" * 50_000])
def test_a_header_that_is_no_json_object_is_refused(text):
    with pytest.raises(FrameError):
        list(Decoder(1 << 20, 0).feed(PREFIX.pack(len(text), 0) + text))


def test_a_body_is_raw_bytes():
    data = encode({"verb": "stdin"}, bytes(range(256)))
    assert data.endswith(bytes(range(256)))
    assert json.loads(data[PREFIX.size : -256]) == {"verb": "stdin"}
