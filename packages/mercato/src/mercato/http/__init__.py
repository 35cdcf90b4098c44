"""What all HTTP requests share: server, edge, routing, bodies, problems, OpenAPI. No operation and no screen."""
