"""The operations, one module per resource. A handler calls a service; it neither decodes nor decides."""
