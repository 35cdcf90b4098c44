"""Checks of a storefront: it buys at a service that follows a script, and what it sends is looked at."""
