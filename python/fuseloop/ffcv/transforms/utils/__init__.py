"""Crops and resizes in Python."""
