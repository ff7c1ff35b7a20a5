"""Everything that the service keeps in one file, taken while it runs, and put back into an empty place.

`saving` writes an archive, `restoring` reads one. Both leave each part to its module: `data_folder` has collections and
uploads of the embedded store, `redis_reading` and `redis_writing` what is in Redis, `tables` what is in PostgreSQL.
`archive` and `manifest` are the file itself.
"""
