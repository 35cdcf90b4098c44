"""Certification of partners' implementations: tables of checks, a runner, signed reports. It holds no service code."""
