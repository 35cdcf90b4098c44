"""`mercato sandbox` and `demo`: simulated partners on the command line."""
