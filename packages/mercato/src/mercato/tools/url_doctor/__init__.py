"""The URL doctor: examines a catalog URL step by step, as a pull would meet it, and advises."""
