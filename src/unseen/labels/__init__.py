"""Label knowledge: names, vectors, relations, what unseen labels can learn from, what a tagger cannot know."""
