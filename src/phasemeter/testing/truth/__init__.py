"""The parts of the truth server: a paced streaming server that logs when it really sent each token."""
