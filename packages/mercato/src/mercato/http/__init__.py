"""The HTTP service: server, edge, routing and the operations. Rules and SQL stay below."""
