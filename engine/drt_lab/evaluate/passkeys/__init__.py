"""``drt eval passkey``: passkeys in contexts of any length, with the chunk memory on disk."""
