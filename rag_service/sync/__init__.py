"""Keeps the documents of a collection in step with a source: a folder, or a bucket of S3-compatible storage.

Knows sources, what a collection holds of them, and the plan between the two. The collection is the only state: each
document carries the record of its file (`held`), so another machine can go on, and nothing drifts. Knows no HTTP and
prints nothing; `rag_service.cli` gives it the collection (`documents.Documents`).
"""
