"""What a person at a terminal types and sees. Knows nothing about models, sessions or artifacts."""
