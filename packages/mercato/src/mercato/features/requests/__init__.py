"""The request log: a line for each notable request, and the refused requests of the last days."""
