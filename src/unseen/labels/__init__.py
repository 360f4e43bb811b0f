"""Label knowledge: names, vectors and the relations between labels.

`unseen.labels.space.LabelSpace` holds names and vectors, `unseen.labels.relations.relate` gives relations between
them, `unseen.labels.diagnosis.diagnose` shows what unseen labels can learn from, and
`unseen.labels.knowable.doubts` which labels a tagger cannot know.
"""
