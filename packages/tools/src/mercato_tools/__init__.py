"""What an integrator runs without a server, as the command `mercato`. Nothing here is part of the service."""
