"""A token bucket: a burst at once, then no more than its rate, and a debt that is paid before anything else."""

from hypothesis import given
from hypothesis import strategies as st

from kho.lib.token_bucket import TokenBucket


def test_a_burst_is_given_at_once_and_then_the_rate() -> None:
    bucket = TokenBucket.full(3, 0.5, now=100.0)
    assert [bucket.take(1, 100.0) for _ in range(4)] == [0.0, 0.0, 0.0, 2.0]
    assert bucket.take(1, 101.0) == 1.0
    assert bucket.take(1, 102.0) == 0.0
    assert bucket.take(1, 102.0) == 2.0


def test_it_never_holds_more_than_its_capacity() -> None:
    bucket = TokenBucket.full(2, 1, now=0.0)
    assert [bucket.take(1, 1e9) for _ in range(3)] == [0.0, 0.0, 1.0]


def test_what_was_used_already_is_owed() -> None:
    bucket = TokenBucket.full(10, 2, now=0.0)
    bucket.owe(30, 0.0)
    assert (bucket.take(0, 0.0), bucket.take(0, 9.0), bucket.take(0, 10.0)) == (10.0, 1.0, 0.0)
    assert bucket.take(1, 10.0) == 0.5


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    bucket = TokenBucket.full(1, 1, now=10.0)
    assert (bucket.take(1, 10.0), bucket.take(1, 5.0), bucket.take(1, 6.0)) == (0.0, 1.0, 0.0)


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(1, 5)), max_size=60))
def test_no_more_is_taken_than_capacity_and_rate_allow(asked: list[tuple[float, int]]) -> None:
    bucket, now, taken = TokenBucket.full(7, 1.5, now=0.0), 0.0, 0
    for pause, amount in asked:
        now += pause
        taken += amount if bucket.take(amount, now) == 0.0 else 0
        assert taken <= 7 + 1.5 * now + 1e-6
