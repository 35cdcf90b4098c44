"""Calls to stores that a request waits for (validate, place): signed, limited per store, behind a circuit breaker."""
