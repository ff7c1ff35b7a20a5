"""The composition root: settings, the pipeline of a query, the HTTP API and the command line.

`settings.py` reads the environment for the service; the client reads RAG_URL and RAG_API_KEY. Knows workers and
retriever; never loads the target model.
"""
