"""The operations, one module a resource. A handler decodes, calls one service method and replies: no rule, no SQL."""
