"""Files of questions, documents and corpora, which training and evaluation read alike."""
