"""The same carts and orders on what else one could take: a plain FastAPI application, and Vendure."""
