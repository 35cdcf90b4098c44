"""Menus in other formats, converted into CatalogSets; every loss is reported by pointer. No input or output."""
