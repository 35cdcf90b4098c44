"""An address that keeps calls waiting and then fails is paused, and delays no other."""

from mercato.features.webhooks.sender import (
    MAX_ADDRESSES,
    MAX_PAUSE_SECONDS,
    PAUSE_SECONDS,
    TRIAL_SECONDS,
    SlowAddresses,
)
from mercato_contract.clock import new_id

HERE = new_id(), "https://a.example"


def test_an_address_is_called_until_it_fails_slowly():
    slow = SlowAddresses()
    slow.record(HERE, began=0, now=0.5, failed=True)
    slow.record(HERE, began=0, now=15, failed=False)
    assert slow.wait(HERE, 15) == 0
    slow.record(HERE, began=0, now=15, failed=True)
    assert slow.wait(HERE, 15) == PAUSE_SECONDS
    assert slow.wait((HERE[0], "https://b.example"), 15) == 0


def test_after_a_pause_one_call_is_made_and_the_others_wait_for_it():
    slow = SlowAddresses()
    slow.record(HERE, began=0, now=15, failed=True)
    assert slow.wait(HERE, 20) == 0
    assert slow.wait(HERE, 20) == TRIAL_SECONDS
    slow.record(HERE, began=20, now=35, failed=True)
    assert slow.wait(HERE, 35) == 2 * PAUSE_SECONDS
    assert slow.wait(HERE, 45) == 0
    slow.record(HERE, began=45, now=45.1, failed=False)
    assert slow.wait(HERE, 45.1) == slow.wait(HERE, 45.1) == 0


def test_calls_that_fail_together_are_one_failure():
    slow = SlowAddresses()
    for _ in range(4):
        slow.record(HERE, began=0, now=15, failed=True)
    assert slow.wait(HERE, 15) == PAUSE_SECONDS


def test_a_pause_ends_however_often_it_fails_and_memory_is_bounded():
    slow = SlowAddresses()
    now = 0.0
    for _ in range(50):
        slow.record(HERE, began=now, now=now + 15, failed=True)
        now += 15 + slow.wait(HERE, now + 15)
    assert slow.wait(HERE, now) <= MAX_PAUSE_SECONDS
    for number in range(MAX_ADDRESSES):
        slow.record((HERE[0], f"https://{number}.example"), began=0, now=15, failed=True)
    assert len(slow._slow) == MAX_ADDRESSES
