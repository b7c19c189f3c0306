"""The command line: thin; every command calls the function of the same name and prints its answer."""
