"""Commands by which a study, or a plugin, begins."""
