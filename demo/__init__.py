"""Two lists of real places side by side, while the number of shards grows: `scripts/demo`."""
