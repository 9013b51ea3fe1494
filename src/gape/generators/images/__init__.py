"""What draws images. Each generator notes beside an image what it needs to vary it (`gape.embedders.images.png`)."""
