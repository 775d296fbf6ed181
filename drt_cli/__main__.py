"""`python -m drt_cli`."""

from drt_cli.main import main

if __name__ == "__main__":
    main()
