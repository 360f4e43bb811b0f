"""Images: reading, preprocessing, backbones, features, and the classes of ImageNet."""
