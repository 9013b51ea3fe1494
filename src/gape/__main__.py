"""`python -m gape`: the command line."""

from gape.cli import main

if __name__ == "__main__":
    main()
