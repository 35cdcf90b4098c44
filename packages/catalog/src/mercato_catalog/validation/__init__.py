"""Validates the bytes of a catalog document: its faults and warnings, and its tables and references. Pure."""
