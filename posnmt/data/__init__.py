"""From text files to a memory-mapped store of subword ids, and its batches."""
