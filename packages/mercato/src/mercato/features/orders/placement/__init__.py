"""Place orders: claim the idempotency key, store the order, submit it to its store, and settle with the answer."""
