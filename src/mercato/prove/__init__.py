"""The crash proof: real processes, killed at any instant, and three books that must agree at the end.

`make prove` runs it. It talks to the service as partners do, over HTTP and the command line; only the service's own
book is read from its database, after the last kill.
"""
