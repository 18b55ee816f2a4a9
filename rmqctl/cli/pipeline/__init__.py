"""rmqctl pipeline: jobs on Spark."""
