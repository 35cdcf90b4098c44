"""Checks of another's implementation: what a merchant's or a storefront's system does with what the service sends."""
