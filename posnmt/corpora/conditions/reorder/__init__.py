"""`posnmt condition reorder`: a pre-orderer, which puts source text into the word order of the target."""
