"""The operations, a module for each resource: a handler decodes, calls one service method and replies. No rules, no SQL."""
