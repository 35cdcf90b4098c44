"""The same with a million stores, which takes a quarter of an hour to make: `make bench-large`."""

from benchmarks import discovery


def main() -> None:
    discovery.main(large=True)


if __name__ == "__main__":
    main()
