from hypothesis import given
from hypothesis import strategies as st

from airlock_agent.output import Clip


@given(st.lists(st.binary(max_size=40)), st.integers(0, 60), st.integers(0, 60))
def test_head_and_tail_are_kept_at_their_offsets_and_all_is_counted(writes, head, tail):
    clip = Clip(head, tail)
    written = b"".join(writes)
    passed = b"".join(clip.feed(data)[1] for data in writes)
    offset, rest = clip.finish()
    assert passed == written[:head]
    assert rest == written[offset:]
    assert len(rest) == min(tail, max(0, len(written) - head))
    assert clip.total == len(written)


def test_what_is_held_is_bounded():
    clip = Clip(10, 1000)
    for _ in range(1000):
        clip.feed(b"x" * 100)
    assert len(clip._tail) <= 2100
