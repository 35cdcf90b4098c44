"""What every HTTP request has in common: server, edge, routing, bodies, problems, OpenAPI. No operation and no screen."""
