"""What Alembic runs: the revisions, in the transaction and under the lock that `mercato.platform.db.migrate` holds."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    # SQLite alters few things in place; a batch rebuilds the table instead.
    render_as_batch=True,
)
context.run_migrations()
