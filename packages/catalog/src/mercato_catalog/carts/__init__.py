"""Carts: price them and change their lines. Pure functions of a request and a compiled catalog."""
