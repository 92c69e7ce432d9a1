"""An artificial language pair with exact references."""
