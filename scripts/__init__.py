"""Scripts that make what the repository carries."""
