"""From recorded files to numbers: percentiles, windows, intervals and the verdict on a run. Pure."""
