"""Orders: checked, placed with a store, followed until they are closed."""
