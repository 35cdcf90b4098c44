"""Decisions §9: at most 20 calls run per store, so that others don't wait for it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato.domain.webhooks.calls.limiter import ConcurrencyLimiter, Line, QueueFull, Share

LONG = 60.0


async def take(turns: ConcurrencyLimiter, line: Line, times: int) -> None:
    for _ in range(times):
        async with asyncio.timeout(1):
            await turns.take(line, LONG)


def wait(turns: ConcurrencyLimiter, line: Line) -> asyncio.Task[None]:
    return asyncio.create_task(turns.take(line, LONG))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_20_calls_of_a_store_run_at_once_and_the_21st_when_one_has_ended() -> None:
    turns, line = ConcurrencyLimiter(), Line()
    await take(turns, line, 20)
    next_one = wait(turns, line)
    await settle()
    assert not next_one.done()
    turns.give_back(line)
    await next_one
    assert line.running == 20


async def test_those_that_wait_go_in_the_order_in_which_they_came() -> None:
    turns, line = ConcurrencyLimiter(per_store=1), Line()
    await take(turns, line, 1)
    order: list[int] = []

    async def call(number: int) -> None:
        await turns.take(line, LONG)
        order.append(number)
        turns.give_back(line)

    calls = [asyncio.create_task(call(number)) for number in range(5)]
    await settle()
    turns.give_back(line)
    await asyncio.gather(*calls)
    assert order == [0, 1, 2, 3, 4]
    assert line.is_idle


async def test_with_100_waiting_one_more_is_refused_at_once() -> None:
    turns, line = ConcurrencyLimiter(per_store=1), Line()
    await take(turns, line, 1)
    waiting = [wait(turns, line) for _ in range(100)]
    await settle()
    with pytest.raises(QueueFull):
        await turns.take(line, LONG)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    turns.give_back(line)
    assert line.is_idle


async def test_who_waits_too_long_leaves_and_holds_no_place() -> None:
    turns, line = ConcurrencyLimiter(per_store=1), Line()
    await take(turns, line, 1)
    with pytest.raises(TimeoutError):
        await turns.take(line, 0.01)
    turns.give_back(line)
    assert line.is_idle
    await take(turns, line, 1)


async def test_who_is_cancelled_in_the_moment_in_which_the_turn_comes_passes_it_on() -> None:
    turns, line = ConcurrencyLimiter(per_store=1), Line()
    await take(turns, line, 1)
    first, second = wait(turns, line), wait(turns, line)
    await settle()
    turns.give_back(line)  # the first one's turn, of which it has not heard yet
    first.cancel()
    await second
    assert first.cancelled() or first.done()
    turns.give_back(line)
    if not first.cancelled():  # it kept its turn
        turns.give_back(line)
    assert line.is_idle


async def test_who_is_cancelled_just_before_the_turn_comes_is_passed_over() -> None:
    turns, line = ConcurrencyLimiter(per_store=1), Line()
    await take(turns, line, 1)
    first, second = wait(turns, line), wait(turns, line)
    await settle()
    first.cancel()
    turns.give_back(line)
    await second
    assert first.cancelled()
    turns.give_back(line)
    assert line.is_idle


async def hang(turns: ConcurrencyLimiter, lines: list[Line]) -> None:
    """Let every line have 25 calls begun, of which those that find no place leave again."""
    calls = [turns.take(line, 0.001) for line in lines for _ in range(25)]
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_partner_whose_stores_all_hang_leaves_two_thirds_of_the_places_to_the_others() -> None:
    turns, theirs = ConcurrencyLimiter(total=63), Share()
    await hang(turns, [Line(theirs) for _ in range(100)])
    assert theirs.running == 21
    await take(turns, Line(), 4)


async def test_with_ten_such_partners_another_still_finds_a_place() -> None:
    turns = ConcurrencyLimiter()
    for _ in range(10):
        share = Share()
        await hang(turns, [Line(share) for _ in range(30)])
    await take(turns, Line(), 1)


async def test_a_store_has_its_20_places_and_fewer_when_its_partners_others_hold_many() -> None:
    turns, share = ConcurrencyLimiter(), Share()
    lines = [Line(share) for _ in range(20)]
    await hang(turns, lines)
    assert lines[0].running == 20
    assert 0 < lines[-1].running < 20


async def test_when_the_shortage_is_over_those_that_waited_for_it_go() -> None:
    turns, share = ConcurrencyLimiter(total=8), Share()
    first, others = Line(share), [Line(share) for _ in range(3)]
    for line in others:
        await take(turns, line, 1)
    calls = [wait(turns, first) for _ in range(6)]
    await settle()
    assert first.running == 0
    for line in others:
        turns.give_back(line)
    for call in calls:  # one after the other, for the places are few
        await call
        turns.give_back(first)
    assert first.is_idle
    assert share.running == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["come", "end", "leave"])), max_size=60))
def test_nobody_is_forgotten_and_no_place_is_lost(events: list[tuple[int, str]]) -> None:
    """Whatever comes, ends and leaves: bounds hold, and in the end all have had their turn."""

    async def play() -> None:
        turns, shares = ConcurrencyLimiter(total=6, per_store=2, waiting=5), [Share(), Share()]
        lines = [Line(shares[number % 2]) for number in range(6)]
        calls: list[list[asyncio.Task[None]]] = [[] for _ in lines]
        for number, event in events:
            line, mine = lines[number], calls[number]
            running = [task for task in mine if task.done()]
            pending = [task for task in mine if not task.done()]
            if event == "come":
                mine.append(wait(turns, line))
            elif event == "end" and running:
                mine.remove(running[0])
                if running[0].exception() is None:
                    turns.give_back(line)
            elif event == "leave" and pending:
                mine.remove(pending[0])
                pending[0].cancel()
            await settle()
            assert all(line.running <= 2 for line in lines)
            assert sum(line.running for line in lines) <= 6
        while any(calls):
            for line, mine in zip(lines, calls, strict=True):
                for task in [task for task in mine if task.done()]:
                    mine.remove(task)
                    if task.exception() is None:
                        turns.give_back(line)
            await settle()
        assert all(line.is_idle for line in lines)
        assert [share.running for share in shares] == [0, 0]

    asyncio.run(asyncio.wait_for(play(), 5))
