"""Builds everything that is stored of a CatalogSet from its document: served bytes, compiled catalog, search data."""
