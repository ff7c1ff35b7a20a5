"""`rag bench answers`: whether the running service's answers are right, cited and honest, over HTTP."""
