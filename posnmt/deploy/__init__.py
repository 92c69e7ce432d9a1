"""Trained models for other programs: what their formats can express, folders to carry there, and search by them."""
