"""`mercato catalog` and `url`: check documents as an ingest would, without a server."""
