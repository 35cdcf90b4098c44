"""Commerce: partners, stores, catalogs, carts, discovery, orders and webhooks. Nothing here knows HTTP or commands."""
