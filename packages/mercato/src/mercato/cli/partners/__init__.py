"""`mercato partner`, `key` and `secret`: accounts, and the credentials that are shown once."""
