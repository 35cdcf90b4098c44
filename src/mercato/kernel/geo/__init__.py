"""Places of the world, found offline: countries, cities of 15,000 people and more, and US postal codes."""
