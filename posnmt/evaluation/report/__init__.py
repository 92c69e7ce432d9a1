"""Show the results of an analysis: tables, figures and a page."""
