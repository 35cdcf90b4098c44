"""Free ports. This needs nothing that is installed: `make start-here` runs before anything is."""

import socket


def free_port(port: int = 0, *, host: str = "127.0.0.1") -> int:
    """Return a port on which nothing listens, this one or any, for a program that is told where to listen.

    It is held until this process ends: else the kernel gives it to another test while that program starts. Whoever
    sets SO_REUSEADDR, as servers do, can listen on it, because the socket that holds it doesn't listen.
    Raises OSError if something listens on the port.
    """
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        plug.bind((host, port))
    except OSError:
        plug.close()
        raise
    taken: int = plug.getsockname()[1]
    plug.detach()
    return taken
