"""Data models and pure rules; and on top of them the launch pipeline and the finding of plugins."""
