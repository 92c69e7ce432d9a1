"""Position information from recurrent networks: before the stack, and in heads of their own."""
