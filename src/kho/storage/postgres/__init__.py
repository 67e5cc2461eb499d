"""PostgreSQL: the `Database` port through a pool of psycopg connections."""
