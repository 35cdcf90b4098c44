"""Reports of certifications: signed, verified, and kept for the partners that upload them."""
