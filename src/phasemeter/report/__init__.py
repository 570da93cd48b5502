"""From files to documents: terminal tables, one HTML page, percentile files. Pure: nothing is measured."""
