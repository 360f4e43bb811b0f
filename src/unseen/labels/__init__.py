"""Label knowledge: names, vectors and the relations between labels."""
