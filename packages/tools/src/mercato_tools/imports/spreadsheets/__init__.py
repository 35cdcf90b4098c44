"""Menus in spreadsheets: CSV, XLSX and ODS files become CatalogSets; every fault is reported by its cell. Pure.

`read.read_menu` is the way in, `template` writes the file to begin with.
"""
