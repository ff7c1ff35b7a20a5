"""The embedded store: each collection is a folder with a SQLite file and a FAISS index. One machine, no server."""
