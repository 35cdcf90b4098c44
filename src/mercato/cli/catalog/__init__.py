"""`mercato catalog` and `url`: what an ingest would say of a document, without a server."""
