"""Stores and their onboarding: what merchants register and change, and what storefronts see of it."""
