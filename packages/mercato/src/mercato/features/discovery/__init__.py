"""Find stores: by place, words, category and hours. An index that follows the stores and catalogs, and its queries."""
