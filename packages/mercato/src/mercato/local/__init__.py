"""A whole network in this process: the demo, and the certification of storefronts. Nothing that serves imports it."""
