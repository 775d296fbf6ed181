"""Which chunks a landmark retrieves, with which probabilities, and where their memory comes
from.
"""
