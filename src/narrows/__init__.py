"""narrows: what limits a large language model on given hardware."""
