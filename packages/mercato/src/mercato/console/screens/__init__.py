"""The screens of the console: a module for each entry of the navigation."""
