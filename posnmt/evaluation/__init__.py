"""From translations to answers and pictures: analyses, their reports, and what position schemes do."""
