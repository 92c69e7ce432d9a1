"""Neural metrics, which programs compute in environments of their own: made, kept, run, and their scores cached."""
