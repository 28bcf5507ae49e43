"""Web application over run directories: pages and an API, without torch, useful with every service stopped."""
