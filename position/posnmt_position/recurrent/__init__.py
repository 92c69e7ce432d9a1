"""Position information from recurrent networks: before the stack, or in separate heads."""
