"""What is known about the models that images are described by: the classes of ImageNet backbones."""
