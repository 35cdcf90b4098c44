"""The console: screens, sign-in and guides. A screen calls the services that the API calls; it has no rules."""
