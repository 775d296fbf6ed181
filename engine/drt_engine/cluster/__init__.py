"""Work on the actors of a Ray cluster, or of a Ray that is started on this machine."""
