"""Source text in the word order of the target: alignment, a learned pre-orderer, the command."""
