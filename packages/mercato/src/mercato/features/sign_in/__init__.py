"""Sign-in to the console: one-time links, passkeys, single sign-on, people with their roles, and sessions."""
