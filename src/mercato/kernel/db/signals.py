"""Words between the parts of one process that share a database, said after a commit."""

from collections import defaultdict
from collections.abc import Callable


class Signals:
    """Who wants to hear of what. A hint only: other processes don't hear it, and a crash loses it."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[[str], None]]] = defaultdict(list)

    def listen(self, topic: str, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with every value said on the topic; return the way to stop."""
        self._listeners[topic].append(listener)
        return lambda: self._listeners[topic].remove(listener)

    def say(self, topic: str, value: str) -> None:
        for listener in tuple(self._listeners.get(topic, ())):
            listener(value)
