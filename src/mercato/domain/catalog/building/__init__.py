"""From a document to all that is stored of a CatalogSet: what is served, priced from and searched."""
