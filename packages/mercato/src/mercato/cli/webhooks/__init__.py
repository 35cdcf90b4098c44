"""`mercato webhooks` and `listen`: deliveries of this service, and a receiver for a developer's machine."""
