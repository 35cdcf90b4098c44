"""Tools for integrators: linter, importers, price proof, certification, demo, URL doctor. Some call a service."""
