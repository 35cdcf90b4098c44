"""Certification of partners' implementations: tables of checks, a runner, and those of merchants. No service code."""
