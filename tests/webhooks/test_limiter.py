"""At most 20 calls of a store run at once, so that other stores don't wait for it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import PATIENCE

from mercato.features.webhooks.calls import ConcurrencyLimiter, PartnerSlots, QueueFull, StoreSlots

LONG = 60.0


async def take(limiter: ConcurrencyLimiter, store: StoreSlots, times: int) -> None:
    for _ in range(times):
        async with asyncio.timeout(PATIENCE):
            await limiter.acquire(store, LONG)


def wait(limiter: ConcurrencyLimiter, store: StoreSlots) -> asyncio.Task[None]:
    return asyncio.create_task(limiter.acquire(store, LONG))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_20_calls_of_a_store_run_at_once_and_the_21st_when_one_ends() -> None:
    limiter, store = ConcurrencyLimiter(), StoreSlots()
    await take(limiter, store, 20)
    next_one = wait(limiter, store)
    await settle()
    assert not next_one.done()
    limiter.release(store)
    await next_one
    assert store.running == 20


async def test_waiting_calls_start_in_order_of_arrival() -> None:
    limiter, store = ConcurrencyLimiter(per_store=1), StoreSlots()
    await take(limiter, store, 1)
    order: list[int] = []

    async def call(number: int) -> None:
        await limiter.acquire(store, LONG)
        order.append(number)
        limiter.release(store)

    calls = [asyncio.create_task(call(number)) for number in range(5)]
    await settle()
    limiter.release(store)
    await asyncio.gather(*calls)
    assert order == [0, 1, 2, 3, 4]
    assert store.is_idle


async def test_with_100_waiting_one_more_is_refused_at_once() -> None:
    limiter, store = ConcurrencyLimiter(per_store=1), StoreSlots()
    await take(limiter, store, 1)
    waiting = [wait(limiter, store) for _ in range(100)]
    await settle()
    with pytest.raises(QueueFull):
        await limiter.acquire(store, LONG)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    limiter.release(store)
    assert store.is_idle


async def test_a_call_that_waits_too_long_leaves_and_holds_no_slot() -> None:
    limiter, store = ConcurrencyLimiter(per_store=1), StoreSlots()
    await take(limiter, store, 1)
    with pytest.raises(TimeoutError):
        await limiter.acquire(store, 0.01)
    limiter.release(store)
    assert store.is_idle
    await take(limiter, store, 1)


async def test_a_call_that_is_cancelled_as_it_gets_a_slot_passes_it_on() -> None:
    limiter, store = ConcurrencyLimiter(per_store=1), StoreSlots()
    await take(limiter, store, 1)
    first, second = wait(limiter, store), wait(limiter, store)
    await settle()
    limiter.release(store)  # the first call has a slot, but hasn't resumed yet
    first.cancel()
    await second
    assert first.cancelled() or first.done()
    limiter.release(store)
    if not first.cancelled():  # it kept its slot
        limiter.release(store)
    assert store.is_idle


async def test_a_call_that_is_cancelled_before_it_gets_a_slot_is_skipped() -> None:
    limiter, store = ConcurrencyLimiter(per_store=1), StoreSlots()
    await take(limiter, store, 1)
    first, second = wait(limiter, store), wait(limiter, store)
    await settle()
    first.cancel()
    limiter.release(store)
    await second
    assert first.cancelled()
    limiter.release(store)
    assert store.is_idle


async def hang(limiter: ConcurrencyLimiter, stores: list[StoreSlots]) -> None:
    """Let every store have 25 calls begun, of which those that find no place leave again."""
    calls = [limiter.acquire(store, 0.001) for store in stores for _ in range(25)]
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_partner_whose_stores_all_hang_leaves_two_thirds_of_the_slots() -> None:
    limiter, theirs = ConcurrencyLimiter(total=63), PartnerSlots()
    await hang(limiter, [StoreSlots(theirs) for _ in range(100)])
    assert theirs.running == 21
    await take(limiter, StoreSlots(), 4)


async def test_with_ten_such_partners_another_still_gets_a_slot() -> None:
    limiter = ConcurrencyLimiter()
    for _ in range(10):
        partner = PartnerSlots()
        await hang(limiter, [StoreSlots(partner) for _ in range(30)])
    await take(limiter, StoreSlots(), 1)


async def test_a_store_has_20_slots_and_fewer_if_its_partners_other_stores_hold_many() -> None:
    limiter, partner = ConcurrencyLimiter(), PartnerSlots()
    stores = [StoreSlots(partner) for _ in range(20)]
    await hang(limiter, stores)
    assert stores[0].running == 20
    assert 0 < stores[-1].running < 20


async def test_blocked_calls_start_when_slots_become_free() -> None:
    limiter, partner = ConcurrencyLimiter(total=8), PartnerSlots()
    first, others = StoreSlots(partner), [StoreSlots(partner) for _ in range(3)]
    for store in others:
        await take(limiter, store, 1)
    calls = [wait(limiter, first) for _ in range(6)]
    await settle()
    assert first.running == 0
    for store in others:
        limiter.release(store)
    for call in calls:  # one after the other, as there are few slots
        await call
        limiter.release(first)
    assert first.is_idle
    assert partner.running == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["come", "end", "leave"])), max_size=60))
def test_no_waiting_call_is_forgotten_and_no_slot_is_lost(events: list[tuple[int, str]]) -> None:
    """Whatever comes, ends and leaves: bounds hold, and in the end all have had their turn."""

    async def play() -> None:
        limiter, partners = (
            ConcurrencyLimiter(total=6, per_store=2, waiting=5),
            [PartnerSlots(), PartnerSlots()],
        )
        stores = [StoreSlots(partners[number % 2]) for number in range(6)]
        calls: list[list[asyncio.Task[None]]] = [[] for _ in stores]
        for number, event in events:
            store, mine = stores[number], calls[number]
            running = [task for task in mine if task.done()]
            pending = [task for task in mine if not task.done()]
            if event == "come":
                mine.append(wait(limiter, store))
            elif event == "end" and running:
                mine.remove(running[0])
                if running[0].exception() is None:
                    limiter.release(store)
            elif event == "leave" and pending:
                mine.remove(pending[0])
                pending[0].cancel()
            await settle()
            assert all(store.running <= 2 for store in stores)
            assert sum(store.running for store in stores) <= 6
        while any(calls):
            for store, mine in zip(stores, calls, strict=True):
                for task in [task for task in mine if task.done()]:
                    mine.remove(task)
                    if task.exception() is None:
                        limiter.release(store)
            await settle()
        assert all(store.is_idle for store in stores)
        assert [partner.running for partner in partners] == [0, 0]

    asyncio.run(asyncio.wait_for(play(), PATIENCE))
