"""Checks of a merchant's webhook receiver and catalog."""
