"""`python -m phasemeter.lab`: serve one engine process."""

from __future__ import annotations

import sys

from phasemeter.lab.config import parse_args


def main(argv: list[str]) -> int:
    """Serve as the flags say; return the exit code, 2 for what cannot be served."""
    try:
        config = parse_args(argv)
        # Not earlier: `--help` and a wrong flag need no numpy.
        from phasemeter.lab.serve import serve

        serve(config)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"phasemeter.lab: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
