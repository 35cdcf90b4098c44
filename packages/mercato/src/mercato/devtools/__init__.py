"""Tools for integrators, on top of the service: certification and the sandbox. The service imports none of them."""
