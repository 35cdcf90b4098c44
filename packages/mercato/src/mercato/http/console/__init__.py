"""The console: what partners and operators see of the service in a browser."""
