"""What shaped an answer, and how sure it is: the record of a turn, and what is read from it."""
