"""From the results of an analysis to figures and a page that a person reads."""
