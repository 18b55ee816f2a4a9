"""The data source: what Spark calls, what is decided on the driver, and what runs in tasks."""
