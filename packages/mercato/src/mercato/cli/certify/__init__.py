"""`mercato certify`: runs checks against an implementation, and signs and verifies their report."""
