"""From the bytes of a catalog document to its faults and warnings, or to all that serving and pricing need. Pure."""
