"""From text files to a memory-mapped store of subword ids, and the batches and test conditions made from them."""
