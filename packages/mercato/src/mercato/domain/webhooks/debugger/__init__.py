"""The signature debugger: explains why a webhook's signature doesn't verify. Only `requests` reads the database."""
