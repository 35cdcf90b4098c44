"""The request log: a log line for each notable request, and the refused requests of the last days."""
