"""Quotes: orders that a store has priced, kept for fifteen minutes until they are placed; and a person's approval."""
