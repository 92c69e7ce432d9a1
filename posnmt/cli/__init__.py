"""The command line: one module for each group of commands. Heavy imports are inside the functions."""
