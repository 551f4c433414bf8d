"""The leader's view of a follower: until when it was level, and why it lags."""

from __future__ import annotations

from purgatorio.broker.replica.follower_state import FollowerState


def test_a_follower_is_caught_up_if_it_reached_the_end_as_it_was_at_its_previous_fetch() -> None:
    follower = FollowerState(2)
    follower.fetched(0, 0, leader_end_offset=10, now_ms=100)
    assert follower.last_caught_up_ms == -1
    follower.fetched(10, 0, leader_end_offset=20, now_ms=200)
    assert follower.last_caught_up_ms == 100, "at 100 the end was 10, and it has all of that now"
    follower.fetched(20, 0, leader_end_offset=20, now_ms=300)
    assert follower.last_caught_up_ms == 300


def test_a_follower_that_fetches_the_same_offset_again_and_again_is_told_from_a_silent_one() -> None:
    follower = FollowerState(2)
    assert follower.why_behind(10) == "broker 2 has not fetched in this leader epoch"
    follower.fetched(10, 0, leader_end_offset=10, now_ms=1_000)
    assert follower.why_behind(12) == "broker 2 is at 10 of 12 and has not fetched since it was level"
    for now_ms in (1_500, 31_000):
        follower.fetched(10, 0, leader_end_offset=12, now_ms=now_ms)
    assert follower.why_behind(12).startswith("broker 2 is at 10 of 12 and fetched for another 30000 ms")
