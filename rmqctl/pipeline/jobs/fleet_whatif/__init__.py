"""The job `fleet-whatif`."""
