"""Checks of a merchant's webhook receiver: it is called as the service calls it, and as the service never would."""
