"""Orders: validate them, place them with their store, and follow them until they are closed."""
