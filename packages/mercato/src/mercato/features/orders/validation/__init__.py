"""Validate orders: price and check them, let their stores set amounts, and sign the result. Nothing is stored."""
