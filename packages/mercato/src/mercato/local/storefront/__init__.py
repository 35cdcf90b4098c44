"""Checks of a storefront: it buys at the real service, behind a proxy that injects faults, and receives events."""
