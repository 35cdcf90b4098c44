"""The screens of operators, which partners do not find."""
