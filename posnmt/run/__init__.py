"""A run: its configuration, completed and checked, and the folder that training writes and translation reads."""
