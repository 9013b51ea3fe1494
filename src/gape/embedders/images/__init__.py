"""Images as samples, and what turns them into points. An image is held as a text: see `png`."""
