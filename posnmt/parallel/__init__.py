"""Work on several cores: threads that compute, processes that prepare and count."""
