"""Guarded calls to partners' servers: pulls of documents, and webhooks."""
