"""Commands to start with: study files, plugins and the guide."""
