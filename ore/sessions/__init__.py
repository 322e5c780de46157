"""What ``ore.store`` is made of: names, text, files and locks of sessions. Knows nothing about models."""
