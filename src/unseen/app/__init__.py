"""The local web app: a page and an API over a photo tagger and a library of photos."""
