"""Offline geocoding: countries, cities of at least 15,000 people, and US postal codes."""
