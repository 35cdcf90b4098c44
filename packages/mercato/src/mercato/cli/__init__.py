"""The operators' commands, which the service adds to the command `mercato` of the tools."""
