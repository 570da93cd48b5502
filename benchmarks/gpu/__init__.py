"""The interference experiment on a machine with a GPU and no network, in one script within minutes."""
