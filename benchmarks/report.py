"""One line for each figure: what, the ratio, the goal, and whether it was met."""


def row(name: str, value: float, goal: str, *, ok: bool) -> None:
    """Print a figure."""
    print(f"{'met ' if ok else 'MISS'}  {value:8.2f}  goal {goal:10s}  {name}", flush=True)
