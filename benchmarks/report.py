"""One line for each figure: what, the ratio, the goal, and whether it was met."""


def row(name: str, value: float, goal: str, *, ok: bool | None) -> None:
    """Print a figure; `ok` None is one without a goal."""
    verdict = {True: "met ", False: "MISS", None: "    "}[ok]
    print(f"{verdict}  {value:8.2f}  goal {goal:10s}  {name}", flush=True)
