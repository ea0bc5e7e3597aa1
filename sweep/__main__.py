"""`python -m sweep`: the command `sweep`, by the interpreter that is named."""

from sweep.cli.main import main

if __name__ == "__main__":
    main()
