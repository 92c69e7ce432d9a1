"""Position schemes: what tells a stack about word order. `seam` is the contract, `registry` the list of schemes."""
