"""Mercato: the commerce network you can run yourself."""
