"""The operating system's files: durable writes, folder names, the lock."""
