"""Counts with their noun, for messages."""


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Return "1 loss" or "1,000 losses"; the plural takes an s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
