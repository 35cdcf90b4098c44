"""Menus published in others' formats, turned into CatalogSets: what is lost is told by pointer."""
