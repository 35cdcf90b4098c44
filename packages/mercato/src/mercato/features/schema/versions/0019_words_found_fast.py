"""The distinct words of SQLite's full-text index, and a smaller index of words on PostgreSQL."""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("CREATE VIRTUAL TABLE store_words_vocabulary USING fts5vocab(store_words, instance)")
    else:
        op.execute(
            "CREATE INDEX ix_store_search_words_first ON store_search USING gin (words) "
            "WITH (fastupdate = off) WHERE number + 0 <= 65536"
        )
