"""The demo: the steps of a merchant and a storefront, and what goes wrong on purpose. It holds no service code."""
