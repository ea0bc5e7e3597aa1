"""Studies as TOML: values with their places in the text, and text of values."""
