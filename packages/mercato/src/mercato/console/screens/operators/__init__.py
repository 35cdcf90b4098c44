"""The screens of operators, which don't exist for partners."""
