"""Readers: one published file format a file, each to canonical Arrow batches."""
