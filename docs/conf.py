"""How Sphinx makes the site: `make docs` writes it to site/, to be opened without a server and without a network."""
# ruff: noqa: INP001  # Sphinx reads it

project = "Mercato"
extensions = ["myst_parser"]
exclude_patterns = ["_*"]
nitpicky = True

# GitHub makes the same anchors, so a link works in both.
myst_heading_anchors = 4
# Directories of the repository stand as words: there is nothing on the site to lead to. A test looks for them.
nitpick_ignore_regex = [("myst", r"(\.\./)+[^#]*/?[^./#]+/?")]
# JSON with `…` in it, for what is not shown; headings that skip a level are still found.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]

html_theme = "furo"
html_title = "Mercato"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
