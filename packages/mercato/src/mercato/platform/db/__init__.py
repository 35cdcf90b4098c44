"""Databases: SQLite and PostgreSQL behind one engine, with migrations, replicas, backups and copies."""
