"""Catalogs: pulled or given, checked, built, stored and read. Stores, carts and discovery depend on them."""
