"""Readers of word vector files: GloVe, word2vec, fastText, .npz, .safetensors and .csv."""

from unseen.labels.readers._block import Block
from unseen.labels.readers._sniff import read_vectors

__all__ = ["Block", "read_vectors"]
