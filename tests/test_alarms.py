"""A call has so much time and no more: time-outs that share one timer end what `asyncio.timeout` would end."""

import asyncio
import gc
from weakref import ref

import pytest

from mercato.alarms import Alarms

SOON = 0.01
LATE = 3600.0


async def forever() -> None:
    await asyncio.Event().wait()


async def test_what_takes_too_long_is_interrupted():
    alarms = Alarms()
    with pytest.raises(TimeoutError), alarms.within(SOON):
        await forever()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_no_time_at_all_is_too_long():
    alarms = Alarms()
    with pytest.raises(TimeoutError), alarms.within(-1.0):
        await forever()


async def test_what_ends_in_time_is_left_alone():
    alarms = Alarms()
    with alarms.within(SOON):
        pass
    with pytest.raises(TimeoutError), alarms.within(2 * SOON):
        await forever()


async def test_the_earliest_rings_first_whichever_was_set_first():
    alarms, ended = Alarms(), []

    async def wait(name: str, seconds: float) -> None:
        try:
            with alarms.within(seconds):
                await forever()
        except TimeoutError:
            ended.append(name)

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("third", 5 * SOON), ("first", SOON), ("second", 3 * SOON)):
            group.create_task(wait(name, seconds))
    assert ended == ["first", "second", "third"]


async def test_the_inner_of_two_is_told_from_the_outer():
    alarms, inner = Alarms(), []

    async def work() -> None:
        with alarms.within(3 * SOON):
            try:
                with alarms.within(SOON):
                    await forever()
            except TimeoutError:
                inner.append("ended")
            await forever()

    with pytest.raises(TimeoutError):
        await work()
    assert inner == ["ended"]


async def test_a_task_that_somebody_else_cancels_is_cancelled():
    alarms, began = Alarms(), asyncio.Event()

    async def work() -> None:
        with alarms.within(LATE):
            began.set()
            await forever()

    task = asyncio.create_task(work())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_is_cancelled_as_its_time_ends_is_cancelled():
    alarms = Alarms()

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        with alarms.within(SOON):
            try:
                await forever()
            except asyncio.CancelledError:
                task.cancel()  # by somebody else, in the same turn
                raise

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(work())


async def test_another_error_stays_what_it_is_though_the_time_is_over():
    alarms = Alarms()

    async def work() -> None:
        with alarms.within(SOON):
            try:
                await forever()
            finally:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()


async def test_what_has_ended_is_forgotten_long_before_its_time():
    alarms = Alarms()
    with alarms.within(LATE):
        for _ in range(10_000):
            with alarms.within(LATE):
                pass
            assert len(alarms) < 200
    assert len(alarms) < 200


async def test_a_task_that_has_ended_is_not_held():
    alarms = Alarms()

    async def work() -> None:
        with alarms.within(LATE):
            await asyncio.sleep(0)

    task = asyncio.create_task(work())
    await task
    held = ref(task)
    del task
    await asyncio.sleep(0)  # the turn in which this one was woken by it still holds it
    gc.collect()
    assert held() is None
