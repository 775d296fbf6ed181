"""What a user names as input: paths, archives, temporary copies without a name."""
