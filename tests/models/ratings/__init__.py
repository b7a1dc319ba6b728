"""Tests of the ratings family."""
