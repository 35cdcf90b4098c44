"""Tools for integrators: linter, importers, price proof, certification, demo, URL doctor. Some of them call a service."""
