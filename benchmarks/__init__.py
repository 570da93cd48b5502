"""What the project measures about itself and its peers; nothing here is installed with the package."""
