"""Sign-in to the console: one-time links and sessions."""
