"""The composition root: settings, the pipeline of a query, the HTTP API and the command line.

The only package that reads the environment. Knows workers and retriever; never loads the target model.
"""
