"""Partners: their accounts, keys, tokens, secrets, limits and quotas. Nothing of stores or orders."""
