"""The command line: a module a group of commands, with heavy imports inside."""
