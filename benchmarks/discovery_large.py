"""The same with a million stores: `make bench-large`. Takes half an hour, twenty minutes of it to make the stores."""

from benchmarks import discovery


def main() -> None:
    discovery.main(large=True)


if __name__ == "__main__":
    main()
