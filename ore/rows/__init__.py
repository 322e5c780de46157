"""Prompts as files and tables: the text of a prompt with places in it, and what is put there."""
