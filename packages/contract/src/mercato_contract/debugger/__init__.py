"""Why a webhook's signature doesn't verify: the mistakes that are known, and what to do about each. Pure."""
