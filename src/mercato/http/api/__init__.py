"""The operations, one module for each resource. A handler decodes nothing and decides nothing: it calls a service."""
