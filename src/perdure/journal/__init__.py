"""What one launch did, appended line by line by its only writer."""
