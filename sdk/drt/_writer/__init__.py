"""A language model of the user's choice that writes the answer, of which each sentence is verified.

Needs the extra ``writer``. Nothing is sent anywhere unless a writer's address is given.
"""
