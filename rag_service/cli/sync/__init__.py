"""`rag sync`: the command, the collection as it sees it, and what it shows."""
