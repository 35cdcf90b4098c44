"""Forty tasks that people give an AI agent, played by a script through the agents' door, and over REST beside it."""
