"""`mercato serve`, `worker` and `migrate`: the processes of a network, from arguments to a running service."""
