"""Position schemes, the order information of a stack: `seam` is the interface, `registry` the list of schemes."""
