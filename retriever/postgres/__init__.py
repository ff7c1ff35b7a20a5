"""The store for more than one machine: PostgreSQL with pgvector. Needs the extra `postgres` (psycopg).

Documents, chunks, vectors, terms and statistics are in one database, and one transaction changes them together.
"""
