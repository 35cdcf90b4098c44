"""Webhooks: the outbox and log of deliveries, their sender, calls to stores, and the signature debugger."""
