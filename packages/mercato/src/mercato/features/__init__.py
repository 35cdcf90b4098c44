"""Commerce: partners, sign-in, stores, catalogs, carts, orders, webhooks. Nothing here knows HTTP or commands."""
