"""`rag bench retrieval`: whether the right document is retrieved, and how fast, in every mode of the search."""
