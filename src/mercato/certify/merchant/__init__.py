"""Checks of a merchant's webhook receiver: the certifier calls it as the service does, and as the service never would."""
