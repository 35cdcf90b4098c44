"""Tools for integrators, which run the service or call one: certification, sandbox, URL doctor."""
